/** When a request is retried, and after which delay.
 *
 * A request is retried at most three times, after
 *
 * - **429**, always: nothing was done;
 * - **500, 502, 503 and 504**, and **409 for a key whose first request may still be under way**;
 * - **a connection that failed before the request was sent**, always; browsers do not distinguish this from the next;
 * - **a connection that failed later**.
 *
 * If the service may have carried the request out, it is retried only if repeating it is safe: GET and HEAD; POST with an
 * `Idempotency-Key`, which is carried out once; PATCH and DELETE with an `If-Match` that names an entity tag, which fails
 * once the first attempt went through. `If-Match: *` does not protect, so it does not count.
 *
 * The delay is that of `Retry-After`, plus a random number of seconds from the upper half of a bound that doubles with each
 * attempt: the delays of one request increase, and clients that were refused together do not come back together.
 */

import { Conflict, ConnectionFailed, NotFound, UntrustedCertificate } from "./errors.js";
import { errorOf, retryAfter } from "./reading.js";
import { atEnd } from "./signals.js";
import { type Answer, LONGEST_TIMER_SECONDS, type Options, type Request, type Send, sender } from "./transport.js";

const MOST = 3;
const FIRST_BOUND_SECONDS = 0.5;
const LAST_BOUND_SECONDS = 30;

/** Sends requests, with retries. */
export class Requests {
  readonly patience: number;
  readonly sleep: NonNullable<Options["sleep"]>;
  /** The time in Unix seconds. */
  readonly clock: () => number;
  readonly #once: Send;
  readonly #times: number;
  readonly #random: () => number;

  constructor(options: Options) {
    const { retries = MOST, patience = 60, sleep = pause, clock = () => Date.now() / 1000, random = Math.random } = options;
    if (!(Number.isInteger(retries) && 0 <= retries && retries <= MOST)) {
      throw new TypeError(`retries must be 0 to ${MOST}`);
    }
    if (!(typeof patience === "number" && patience >= 0)) throw new TypeError("patience must be 0 seconds or more");
    this.patience = patience;
    this.sleep = sleep;
    this.clock = clock;
    this.#once = sender(options, clock);
    this.#times = retries;
    this.#random = random;
  }

  /** The random part of the delay before each retry, in seconds; endless unless `times` is given. */
  *delays(times = Infinity): Generator<number, undefined> {
    let bound = FIRST_BOUND_SECONDS;
    for (let time = 0; time < times; time++) {
      yield (bound * (1 + this.#random())) / 2;
      bound = Math.min(2 * bound, LAST_BOUND_SECONDS);
    }
  }

  /** Sends a request until it is answered and should not be retried, and returns the response. Retries it at most `times`.
   *
   * Throws `ConnectionFailed` if there is no response. If a retried DELETE finds nothing (404), an earlier attempt has deleted
   * the resource, so the response is 204.
   */
  async send(request: Request, times = this.#times): Promise<Answer> {
    const guarded = isGuarded(request);
    const delays = this.delays(times);
    let perhapsDone = false;
    for (;;) {
      let wait = 0;
      let end: () => Answer;
      try {
        const answer = await this.#once(request);
        if (perhapsDone && request.method === "DELETE" && isNotFound(answer)) return { ...answer, status: 204 };
        if (!worthRepeating(request, answer, guarded, perhapsDone)) return answer;
        wait = retryAfter(answer) ?? 0;
        if (wait > this.patience) return answer;
        perhapsDone ||= answer.status !== 429;
        end = () => answer;
      } catch (fault) {
        if (!(fault instanceof ConnectionFailed) || fault instanceof UntrustedCertificate || (fault.sent && !guarded)) throw fault;
        perhapsDone ||= fault.sent;
        end = () => {
          throw fault;
        };
      }
      const delay = delays.next().value;
      if (delay === undefined) return end();
      await this.sleep(wait + delay, request.signal);
    }
  }
}

/** Whether a request can be retried although the first attempt may have been carried out. */
function isGuarded({ method, headers = {} }: Request): boolean {
  if (method === "GET") return true;
  if (method === "POST") return "idempotency-key" in headers;
  return (headers["if-match"] ?? "*").trim() !== "*";
}

function isNotFound(answer: Answer): boolean {
  return answer.status === 404 && errorOf(answer) instanceof NotFound;
}

function worthRepeating(request: Request, answer: Answer, guarded: boolean, perhapsDone: boolean): boolean {
  if (answer.status === 429) return true;
  if ([500, 502, 503, 504].includes(answer.status)) return guarded;
  return answer.status === 409 && perhapsDone && guarded && request.method === "POST" && errorOf(answer) instanceof Conflict;
}

function pause(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      forget();
      resolve();
    };
    const timer = setTimeout(done, signal?.aborted ? 0 : Math.min(seconds, LONGEST_TIMER_SECONDS) * 1000);
    const forget = atEnd(signal, done);
  });
}
