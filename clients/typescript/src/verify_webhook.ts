import { InvalidDelivery } from "./errors.js";
import type { Event } from "./models.js";
import { eventOf } from "./reading.js";

const SECRET = /^whsec_((?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=)?)$/;
const SHORTEST_KEY = 24;
const LONGEST_KEY = 64;
const NAMES = ["webhook-id", "webhook-timestamp", "webhook-signature"] as const;
const HMAC = { name: "HMAC", hash: "SHA-256" };

/** The headers of a request, as frameworks provide them: `Headers`, or an object such as Node's `request.headers`. */
export type WebhookHeaders =
  | Headers
  | Iterable<[string, string]>
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** `tolerance` is how far from now a delivery's timestamp may be, in seconds (default 300); `clock` is the time in Unix seconds,
 * for tests. */
export interface WebhookOptions {
  readonly tolerance?: number | undefined;
  readonly clock?: (() => number) | undefined;
}

/** The event of a delivery, if Portico sent it: one of its signatures was made with `secret` (or one of several, while it is
 * replaced), at most `tolerance` seconds before or after now (the symmetric scheme of Standard Webhooks).
 *
 * `body` is the request's body, unmodified and not parsed; `headers` are the request's, in any letter case. An event may be
 * delivered more than once, with the same `id`.
 *
 * Throws `InvalidDelivery` if the delivery must not be trusted, TypeError for an invalid secret or a parsed body.
 */
export async function verifyWebhook(
  body: string | Uint8Array | ArrayBuffer,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { tolerance = 300, clock = () => Date.now() / 1000 }: WebhookOptions = {},
): Promise<Event> {
  // No signature would match a parsed body, and the reason would be hard to find.
  if (typeof body !== "string" && body?.byteLength === undefined) throw new TypeError("give the body as it came");
  if (!secret?.length) throw new TypeError("give a webhook's secret");
  const keys = (typeof secret === "string" ? [secret] : secret).map(keyOf);
  const [id, timestamp, signatures] = headersOf(headers);
  if (!/^\d{1,19}$/.test(timestamp)) throw new InvalidDelivery("its timestamp is not a time");
  if (Math.abs(Number(timestamp) - clock()) > tolerance) {
    throw new InvalidDelivery(`its timestamp is more than ${tolerance} seconds from now`);
  }
  const sent = typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body);
  const content = await new Blob([`${id}.${timestamp}.`, sent]).arrayBuffer();
  if (!(await isSigned(content, signatures, keys))) throw new InvalidDelivery("none of its signatures is valid");
  try {
    return eventOf(new TextDecoder("utf-8", { fatal: true }).decode(sent));
  } catch (cause) {
    throw new InvalidDelivery("it is signed but not an event", { cause });
  }
}

function headersOf(headers: WebhookHeaders): [string, string, string] {
  const pairs = Symbol.iterator in headers ? [...(headers as Iterable<[string, string]>)] : Object.entries(headers);
  const found = new Map(pairs.map(([name, value]) => [name.toLowerCase(), value]));
  return NAMES.map((name) => {
    const value = found.get(name);
    if (typeof value !== "string" || !value) throw new InvalidDelivery(`it has no ${name}`);
    return value;
  }) as [string, string, string];
}

async function isSigned(content: ArrayBuffer, signatures: string, keys: Bytes[]): Promise<boolean> {
  for (const bytes of keys) {
    const key = await crypto.subtle.importKey("raw", bytes, HMAC, false, ["verify"]);
    for (const one of signatures.split(/\s+/)) {
      const signature = one.startsWith("v1,") ? decoded(one.slice(3)) : undefined;
      if (signature && (await crypto.subtle.verify(HMAC, key, signature, content))) return true;
    }
  }
  return false;
}

type Bytes = Uint8Array<ArrayBuffer>;

function keyOf(secret: string): Bytes {
  const key = decoded(SECRET.exec(secret)?.[1] ?? "");
  if (!key || key.length < SHORTEST_KEY || key.length > LONGEST_KEY) {
    // The message does not show the secret.
    throw new TypeError(`a webhook's secret is whsec_ and ${SHORTEST_KEY} to ${LONGEST_KEY} bytes in base64`);
  }
  return key;
}

function decoded(base64: string): Bytes | undefined {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
