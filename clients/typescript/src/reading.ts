import * as errors from "./errors.js";
import { APIError, type Fault, OAuthError, RateLimited, ServiceUnavailable, UnexpectedAnswer } from "./errors.js";
import type { Event, Tagged } from "./models.js";
import type { Answer } from "./transport.js";

/** The class of every code. */
const BY_CODE = new Map<string, typeof APIError>();
for (const [name, kind] of Object.entries(errors as object as Record<string, typeof APIError>)) {
  // Bundlers shorten the names of classes, which errors are printed with, and leave those by which they are exported.
  Object.defineProperty(kind, "name", { value: name });
  if (kind.CODE) BY_CODE.set(kind.CODE, kind);
}
const BY_STATUS = new Map<number, typeof APIError>([
  [429, RateLimited],
  [503, ServiceUnavailable],
]);

/** The value of a JSON text of an answer. Throws `UnexpectedAnswer`. */
export function decoded<T>(answer: Answer): T {
  try {
    return JSON.parse(answer.text) as T;
  } catch {
    throw unexpected(answer);
  }
}

/** The `data` of a success: one resource. Throws `UnexpectedAnswer`. */
export function dataOf<T>(answer: Answer): T {
  const data = decoded<{ data?: T } | null>(answer)?.data;
  if (!isResource(data)) throw unexpected(answer);
  return data as T;
}

/** A success whose `data` are resources. Throws `UnexpectedAnswer`. */
export function listOf<List extends { data: unknown[] }>(answer: Answer): List {
  const list = decoded<Partial<List> | null>(answer);
  if (!Array.isArray(list?.data) || !list.data.every(isResource)) throw unexpected(answer);
  return list as List;
}

/** What has an id is taken for what was asked for: a page of something in between, or of another service, has none. */
function isResource(one: unknown): boolean {
  return Number.isSafeInteger((one as { id?: unknown } | null | undefined)?.id);
}

/** The resource of an answer, with the entity tag that it has now. */
export function taggedOf<One extends Tagged>(answer: Answer): One {
  const etag = answer.headers.get("etag");
  return { ...dataOf<One>(answer), ...(etag !== null && { etag }) };
}

/** The same of an answer that is still to come. */
export async function tagged<One extends Tagged>(asked: Promise<Answer>): Promise<One> {
  return taggedOf<One>(await asked);
}

/** The event of a JSON text. Throws SyntaxError and TypeError. */
export function eventOf(text: string): Event {
  const event = JSON.parse(text) as Event;
  const { id, type, timestamp, data } = event;
  const known = Number.isSafeInteger(id) && typeof type === "string" && !Number.isNaN(Date.parse(timestamp));
  if (!known || typeof data !== "object" || !data || Array.isArray(data)) throw new TypeError("it is no event");
  return event;
}

/** What is thrown for a success that cannot be understood. */
export function unexpected({ status, headers }: Answer): UnexpectedAnswer {
  const id = headers.get("x-request-id");
  return new UnexpectedAnswer(`the answer ${status} ${id ? `cannot be understood [${id}]` : "is not one of Portico's"}`);
}

/** The error that an answer tells of, whoever gave it. */
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
    return new kind(status, kind.CODE, "The answer is not one of Portico's.", told);
  }
}

function mustBeText(told: unknown): string {
  if (typeof told !== "string") throw new TypeError("it is no text");
  return told;
}

/** How many seconds the answer asks to wait. Until a time, they count from the answer's own `Date`, where it has one: clocks
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
