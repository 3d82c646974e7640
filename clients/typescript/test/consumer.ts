// What callers write: compiled by tests/client/test_typescript_client.py by several settings, and never run.
import {
  Client,
  type Event,
  type EventOf,
  type EventType,
  Login,
  OAuthApp,
  OAuthTokens,
  type Product,
  TokenVerifier,
  type UnknownEvent,
  verifyWebhook,
} from "@portico/client";
import { fetch as another } from "undici";

export const sending = [
  new Client({ fetch }),
  new Client({ fetch: another }),
  new Client({ fetch: (url, init) => fetch(url, { ...init, cache: "no-store" }) }),
  new Client({ fetch: async (url, init) => new Response(`${init.method} ${url}`) }),
];

/** What may be left out may be undefined, also by exactOptionalPropertyTypes. */
export async function left(text: string | undefined, count: number | undefined, signal: AbortSignal | undefined) {
  const testing = { clock: undefined, sleep: undefined, random: undefined };
  const options = { timeout: count, retries: count, patience: count, fetch: undefined, ...testing };
  const client = new Client({ apiKey: text, accessToken: text, auth: undefined, baseUrl: text, authUrl: text, ...options });
  new OAuthApp({ clientId: "c", redirectUri: "r", clientSecret: text, authUrl: text, onChange: undefined, ...options });
  new OAuthTokens({ accessToken: "a", clientId: "c", scopes: undefined }, { onChange: undefined });
  new Login("ada@example.com", "p", { otp: undefined });
  new TokenVerifier("issuer", "audience", options);
  client.products.list({ search: text, limit: count }, { signal });
  client.products.list({ search: new URLSearchParams().get("search") });
  client.events.stream({ after: count, type: text }, { signal });
  const lamp = { name: "Lamp", category: "lighting", price: 1, description: text };
  await client.products.create(lamp, { idempotencyKey: text, signal });
  await client.products.update(1, { name: text }, { ifMatch: text, signal });
  await client.users.update(1, { name: text });
  await client.apiKeys.create({ name: "k", type: "live", expires_at: text });
  await client.apiKeys.rotate({ switch: undefined, signal });
  const { etag } = await client.webhooks.update(1, { url: text });
  await client.webhooks.delete(1, { ifMatch: etag, signal });
  // @ts-expect-error: what may not be left out must be there.
  await client.products.create({ name: text, category: "lighting", price: 1 });
}

export const delivered = (request: Request) =>
  verifyWebhook("", request.headers, "whsec_", { tolerance: undefined, clock: undefined });
export const arrived = (headers: Record<string, string | string[] | undefined>) => verifyWebhook("", headers, "whsec_");

/** A server's own roles and scopes are taken and compared like the built-in ones. */
export async function own(client: Client, event: EventOf<"user.updated">): Promise<boolean> {
  client.users.list({ role: "support" });
  await client.users.update(1, { role: "support" });
  await client.invitations.create({ email: "ada@example.com", role: "support" });
  await client.clients.create({ name: "Shop", scopes: ["read:invoices", "read:products"] });
  const { scopes } = await client.apiKeys.create({ name: "k", type: "live", scopes: ["read:invoices"] });
  const orders = client.kind<{ number: string; status: "open" | "paid" }>("orders");
  const order = await orders.create({ number: scopes?.[0] ?? "1" });
  await orders.update(order.id, { status: "paid" }, { ifMatch: order.etag });
  // @ts-expect-error: a field has the type that was given for it.
  await orders.update(order.id, { status: "lost" });
  // @ts-expect-error: a scope is a text.
  await client.apiKeys.create({ name: "k", type: "live", scopes: [1] });
  return event.data.role === "support" || event.previous.role === "viewer" || scopes?.[0] === "read:invoices";
}

/** A comparison of the type tells the shape, wherever the event comes from. */
export async function told(client: Client, headers: Headers): Promise<void> {
  const delivery = await verifyWebhook("", headers, "whsec_");
  if (delivery.type === "ping") console.log(delivery.data.webhook_id.toFixed());
  for await (const event of client.events.list()) {
    if (event.type === "product.updated") event.previous.price?.toFixed();
  }
  for await (const event of client.events.stream()) about(event);
  for (const event of (await client.events.list().page()).data) about(event);
}

/** The compiler says if a type is left out. */
export function about(event: Event): string | number {
  const { id, previous } = event;
  console.log(id, previous);
  switch (event.type) {
    case "product.created":
    case "product.deleted":
      event.previous satisfies undefined;
      return event.data.metadata["colour"] ?? event.data.name;
    case "product.updated":
      event.data satisfies Product;
      return event.previous.price ?? event.data.price;
    case "user.created":
    case "user.updated":
    case "user.deleted":
      return event.data.preferences.language;
    case "quota.reached":
      return event.data.percent satisfies 80 | 100;
    case "account.updated":
      return event.previous.plan ?? event.data.plan;
    case "api_key.created":
    case "api_key.revoked":
      return event.data.hint;
    case "api_key.rotated":
      return event.data.previous_key.id;
    case "products.imported":
      return event.data.inserted;
    case "sandbox.reset":
      return event.data.products;
    case "ping":
      return event.data.webhook_id;
    default:
      return known(event);
  }
}

const known = ({ type, data }: UnknownEvent): string => `${type} of a newer server: ${data["id"]}`;
const handlers: { [Type in EventType]?: (event: EventOf<Type>) => void } = {
  "product.updated": ({ previous }) => console.log(previous.name?.length),
  "user.deleted": ({ data }) => console.log(data.email),
};

/** What is wrong with an event does not compile. */
export function wrong(event: Event): void {
  // @ts-expect-error: the type must be compared first.
  console.log(handlers, event.data.name);
  // @ts-expect-error: there is no such type.
  if (event.type === "product.creatd") return;
  if (event.type === "user.created") {
    // @ts-expect-error: a user has no price.
    console.log(event.data.price);
    // @ts-expect-error: only an update has old values.
    console.log(event.previous.name);
  } else if (event.type !== "user.updated") {
    // @ts-expect-error: other types are left.
    known(event);
  }
  // @ts-expect-error: what is handled must exist.
  handlers["lamp.lit"] = console.log;
}
