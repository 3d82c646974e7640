// What callers write: compiled by tests/client/test_typescript_client.py by several settings, and never run.
import { Client, Login, OAuthApp, OAuthTokens, TokenVerifier, verifyWebhook } from "@portico/client";
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
