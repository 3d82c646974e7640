import * as errors from "./errors.js";
import { APIError, type Fault, OAuthError, RateLimited, ServiceUnavailable, UnexpectedAnswer } from "./errors.js";
import type { Event, Tagged } from "./models.js";
import type { Answer } from "./transport.js";

/** The error class for each code. */
const BY_CODE = new Map<string, typeof APIError>();
for (const [name, kind] of Object.entries(errors as object as Record<string, typeof APIError>)) {
  // Bundlers shorten the names of classes, with which errors are printed, but not the names of exports.
  Object.defineProperty(kind, "name", { value: name });
  if (kind.CODE) BY_CODE.set(kind.CODE, kind);
}
const BY_STATUS = new Map<number, typeof APIError>([
  [429, RateLimited],
  [503, ServiceUnavailable],
]);

/** The JSON value of a response. Throws `UnexpectedAnswer`. */
export function decoded<T>(answer: Answer): T {
  try {
    return JSON.parse(answer.text) as T;
  } catch {
    throw unexpected(answer);
  }
}

/** The `data` of a successful response: one resource. Throws `UnexpectedAnswer`. */
export function dataOf<T>(answer: Answer): T {
  const data = decoded<{ data?: T } | null>(answer)?.data;
  if (!isResource(data)) throw unexpected(answer);
  return data as T;
}

/** A successful response whose `data` are resources. Throws `UnexpectedAnswer`. */
export function listOf<List extends { data: unknown[] }>(answer: Answer): List {
  const list = decoded<Partial<List> | null>(answer);
  if (!Array.isArray(list?.data) || !list.data.every(isResource)) throw unexpected(answer);
  return list as List;
}

/** A successful response whose `data` are rows without an id. Throws `UnexpectedAnswer`. */
export function rowsOf<Row extends object>(answer: Answer): Row[] {
  const rows = decoded<{ data?: Row[] } | null>(answer)?.data;
  if (!Array.isArray(rows) || !rows.every((row) => typeof row === "object" && row)) throw unexpected(answer);
  return rows;
}

/** Checks only for an id: a page from a proxy or another service has none. */
function isResource(one: unknown): boolean {
  const { id, client_id: clientId } = (one ?? {}) as { id?: unknown; client_id?: unknown };
  return Number.isSafeInteger(id) || typeof clientId === "string";
}

/** The resource of a response, with its entity tag. */
export function taggedOf<One extends Tagged>(answer: Answer): One {
  const etag = answer.headers.get("etag");
  return { ...dataOf<One>(answer), ...(etag !== null && { etag }) };
}

/** The same for a promised response. */
export async function tagged<One extends Tagged>(asked: Promise<Answer>): Promise<One> {
  return taggedOf<One>(await asked);
}

/** The event of a JSON text. Throws SyntaxError and TypeError. */
export function eventOf(text: string): Event {
  const event = JSON.parse(text) as Event;
  const { id, type, timestamp, data } = event;
  const known = Number.isSafeInteger(id) && typeof type === "string" && !Number.isNaN(Date.parse(timestamp));
  if (!known || typeof data !== "object" || !data || Array.isArray(data)) throw new TypeError("it is not an event");
  return event;
}

/** The error for a successful response that cannot be understood. */
export function unexpected({ status, headers }: Answer): UnexpectedAnswer {
  const id = headers.get("x-request-id");
  return new UnexpectedAnswer(`the response ${status} ${id ? `cannot be understood [${id}]` : "is not from Portico"}`);
}

/** The error of a response, whether it comes from the service or something in between. */
export function errorOf(answer: Answer): APIError {
  const { status, headers, text } = answer;
  const told = { requestId: headers.get("x-request-id") ?? undefined, retryAfter: retryAfter(answer) };
  const known = BY_STATUS.get(status);
  try {
    const { error, error_description: description } = JSON.parse(text);
    if (typeof error === "string") {
      return new (known ?? OAuthError)(status, error, String(description ?? error), told);
    }
    const details = error.details.map((one: Fault) => ({ field: mustBeText(one.field), message: mustBeText(one.message) }));
    const kind = BY_CODE.get(error.code) ?? APIError;
    return new kind(status, mustBeText(error.code), mustBeText(error.message), { ...told, details });
  } catch {
    const kind = known ?? APIError;
    return new kind(status, kind.CODE, "The response is not from Portico.", told);
  }
}

function mustBeText(told: unknown): string {
  if (typeof told !== "string") throw new TypeError("it is not a string");
  return told;
}

/** The `Retry-After` of a response in seconds. A date is compared with the response's own `Date`, if it has one, because clocks
 * differ. */
export function retryAfter({ headers, at }: Answer): number | undefined {
  const text = headers.get("retry-after") ?? "";
  if (/^\d+$/.test(text)) return Number(text);
  const until = seconds(text);
  return until && Math.max(Math.ceil(until - (seconds(headers.get("date") ?? "") ?? at)), 0);
}

/** The time of an HTTP date, in any of its three forms (RFC 9110 §5.6.7), in Unix seconds. */
function seconds(text: string): number | undefined {
  const [date, zone] = /^[A-Z][a-z]+,? [\w -]+ \d\d:\d\d:\d\d( GMT| \d{4})$/.exec(text) ?? [];
  const found = date ? Date.parse(zone === " GMT" ? date : `${date} GMT`) / 1000 : NaN;
  return Number.isNaN(found) ? undefined : found;
}
