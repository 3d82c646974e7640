import { JSON_BODY, type Access } from "./access.js";
import { SecretLost } from "./errors.js";
import { dataOf, unexpected } from "./reading.js";
import type { Answer } from "./transport.js";

/** What a request carries. */
export interface Given {
  readonly fields?: object;
  readonly idempotencyKey?: string | undefined;
  readonly ifMatch?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What every call takes: `signal` ends it at once, that of a list each of its pages, that of a stream all of it, also while it
 * waits to be repeated. Its reason is thrown, such as an `AbortError`. What was sent by then may be carried out all the same. */
export type Calling = Pick<Given, "signal">;

/** `idempotencyKey`: whoever gives one may repeat the call with it for 24 hours, also from another process: it is carried
 * out once. Without one, the client's own retries are as safe. */
export type Creating = Calling & Pick<Given, "idempotencyKey">;

/** `ifMatch`: with the resource's `etag`, throws `PreconditionFailed` if somebody else changed it meanwhile; without, a call
 * whose answer is lost is not repeated. */
export type Changing = Calling & Pick<Given, "ifMatch">;

/** Makes calls: a path is below the base address. Throws `PorticoError`. */
export class Calls {
  readonly #access: Access;

  constructor(access: Access) {
    this.#access = access;
  }

  /** The answer, which is a success. A POST is carried out once: it has a key, a new one unless one is given. */
  async make(method: string, path: string, { fields, idempotencyKey, ifMatch, signal }: Given = {}): Promise<Answer> {
    const headers: Record<string, string> = fields ? { ...JSON_BODY } : {};
    if (method === "POST") headers["idempotency-key"] = sendable("idempotencyKey", idempotencyKey ?? crypto.randomUUID());
    if (ifMatch !== undefined) headers["if-match"] = sendable("ifMatch", ifMatch);
    const request = { method, path, headers, signal, ...(fields && { body: JSON.stringify(fields) }) };
    return this.#access.success(request);
  }

  /** The `data` of the answer. */
  async data<T>(method: string, path: string, given?: Given): Promise<T> {
    return dataOf(await this.make(method, path, given));
  }

  /** The same of an answer that holds a secret: `lost` says what is lost where it came of an earlier request. */
  async secret<T>(path: string, given: Given, lost: (data: T) => string, read: (answer: Answer) => T = dataOf): Promise<T> {
    const answer = await this.make("POST", path, given);
    const data = read(answer);
    if (answer.headers.get("idempotent-replayed") === "true") throw new SecretLost(lost(data));
    return data;
  }

  /** A call whose answer says no more than that it is or will be done. */
  async done(method: string, path: string, given?: Given): Promise<void> {
    const answer = await this.make(method, path, given);
    if (answer.status !== 204 && answer.status !== 202) throw unexpected(answer); // such as a page of a proxy
  }
}

/** What a header can carry. Throws TypeError for another. */
function sendable(name: string, value: string): string {
  if (!/^[!-~](?:[ -~]*[!-~])?$/.test(value)) throw new TypeError(`${name} must be ASCII characters, without spaces around them`);
  return value;
}

/** Filters as the query of an address, `?` included; nothing where there are none. Those of null or undefined are none. */
export function query(filters: object): string {
  const pairs = Object.entries(filters).filter(([, value]) => value !== undefined && value !== null);
  return pairs.length ? `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}` : "";
}

/** The path of one of a list. Throws TypeError for what is no id. */
export function at(path: string, id: number): string {
  if (!Number.isSafeInteger(id)) throw new TypeError("an id is a whole number");
  return `${path}/${id}`;
}
