import { JSON_BODY, type Access } from "./access.js";
import { SecretLost } from "./errors.js";
import type { Check, Verified } from "./models.js";
import { dataOf, decoded, unexpected } from "./reading.js";
import type { Answer } from "./transport.js";

/** The contents of a request. */
export interface Given {
  readonly fields?: object;
  readonly idempotencyKey?: string | undefined;
  readonly ifMatch?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The options of every call. `signal` aborts it immediately, even while it waits for a retry; for a list it aborts each
 * request, for a stream all of it. The signal's reason is thrown, such as an `AbortError`. A request that was already sent may
 * still be carried out. */
export type Calling = Pick<Given, "signal">;

/** With an `idempotencyKey`, the call can be repeated for 24 hours, even by another process, and is carried out once. Without
 * one, only the client's own retries are safe in this way. */
export type Creating = Calling & Pick<Given, "idempotencyKey">;

/** With the resource's `etag` as `ifMatch`, throws `PreconditionFailed` if the resource was changed meanwhile. Without it, a
 * call whose response is lost is not retried. */
export type Changing = Calling & Pick<Given, "ifMatch">;

/** Makes calls; paths are relative to the base address. Throws `PorticoError`. */
export class Calls {
  readonly #access: Access;

  constructor(access: Access) {
    this.#access = access;
  }

  /** The successful response. A POST is carried out once: it has an idempotency key, a new one unless one is given. */
  async make(method: string, path: string, { fields, idempotencyKey, ifMatch, signal }: Given = {}): Promise<Answer> {
    const headers: Record<string, string> = fields ? { ...JSON_BODY } : {};
    if (method === "POST") headers["idempotency-key"] = sendable("idempotencyKey", idempotencyKey ?? crypto.randomUUID());
    if (ifMatch !== undefined) headers["if-match"] = sendable("ifMatch", ifMatch);
    return this.#access.success({ method, path, headers, signal, ...(fields && { body: JSON.stringify(fields) }) });
  }

  /** What `POST /verify` says of a check. It has no idempotency key: one whose answer is lost may have been counted. */
  async verify(check: Check, signal?: AbortSignal): Promise<Verified> {
    const answer = await this.#access.success({
      ...{ method: "POST", path: "/verify", headers: JSON_BODY, signal },
      body: JSON.stringify(check),
    });
    const data = decoded<{ data?: Verified } | null>(answer)?.data;
    if (typeof data?.valid !== "boolean") throw unexpected(answer);
    return data;
  }

  /** The `data` of the response. */
  async data<T>(method: string, path: string, given?: Given): Promise<T> {
    return dataOf(await this.make(method, path, given));
  }

  /** The same for a response with a secret. If it repeats that of an earlier request, the secret is left out: throws
   * `SecretLost` with the message from `lost`. */
  async secret<T>(path: string, given: Given, lost: (data: T) => string, read: (answer: Answer) => T = dataOf): Promise<T> {
    const answer = await this.make("POST", path, given);
    const data = read(answer);
    if (answer.headers.get("idempotent-replayed") === "true") throw new SecretLost(lost(data));
    return data;
  }

  /** A call whose response has no content. */
  async done(method: string, path: string, given?: Given): Promise<void> {
    const answer = await this.make(method, path, given);
    if (answer.status !== 204 && answer.status !== 202) throw unexpected(answer); // such as a page from a proxy
  }
}

/** The value, if a header can carry it. Throws TypeError otherwise. */
function sendable(name: string, value: string): string {
  if (!/^[!-~](?:[ -~]*[!-~])?$/.test(value)) throw new TypeError(`${name} must be ASCII characters, without spaces around them`);
  return value;
}

/** Filters as the query of an address, with the `?`; empty if there are none. Those that are null or undefined are left out. */
export function query(filters: object): string {
  const pairs = Object.entries(filters).filter(([, value]) => value !== undefined && value !== null);
  return pairs.length ? `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}` : "";
}

/** The path of one resource of a list. Throws TypeError for an invalid id. */
export function at(path: string, id: number): string {
  if (!Number.isSafeInteger(id)) throw new TypeError("an id is a whole number");
  return `${path}/${id}`;
}
