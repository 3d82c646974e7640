/** What the reference shows of the TypeScript client: the body of each function is the example of the operation that it is
 * named after. */
import { Client, Login, OAuthApp, OAuthTokens, SessionLogin } from "@portico/client";

export async function list_users(client: Client) {
  for await (const user of client.users.list({ role: "editor" })) {
    console.log(user.id, user.name);
  }
}

export async function create_user(client: Client) {
  const user = await client.users.create({
    name: "Ada Lovelace",
    email: "ada@example.com",
    password: "Analytical1",
    role: "editor",
  });
  console.log(user.id);
}

export async function read_me(client: Client) {
  const me = await client.me();
  console.log(me.name, me.role);
}

export async function change_me(client: Client) {
  const me = await client.updateMe({ name: "Ada King", preferences: { theme: "dark" } });
  console.log(me.name);
}

export async function read_user(client: Client) {
  const user = await client.users.get(17);
  console.log(user.name, user.email);
}

export async function change_user(client: Client) {
  const user = await client.users.update(17, {
    name: "Ada King",
    preferences: { theme: "dark" },
  });
  console.log(user.name);
}

export async function delete_user(client: Client) {
  await client.users.delete(17);
}

export async function list_products(client: Client) {
  const products = client.products.list({ category: "lighting", max_price: 30 });
  for await (const product of products) {
    console.log(product.name, product.price);
  }
}

export async function create_product(client: Client) {
  const product = await client.products.create({
    name: "Desk lamp",
    category: "lighting",
    price: 24.5,
    description: "Warm light on a jointed arm.",
    stock_quantity: 12,
    status: "active",
    images: [{ url: "https://example.com/lamp.jpg", alt: "The lamp, lit" }],
    metadata: { colour: "brass" },
  });
  console.log(product.id);
}

export async function read_product(client: Client) {
  const product = await client.products.get(17);
  console.log(product.name, product.price);
}

export async function change_product(client: Client) {
  const product = await client.products.update(17, { price: 19.95, stock_quantity: 3 });
  console.log(product.price);
}

export async function delete_product(client: Client) {
  await client.products.delete(17);
}

export async function list_api_keys(client: Client) {
  for await (const key of client.apiKeys.list()) {
    console.log(key.name, key.hint);
  }
}

export async function create_api_key(client: Client) {
  const made = await client.apiKeys.create({
    name: "Storefront",
    type: "live",
    scopes: ["read:products"],
    networks: ["203.0.113.0/24"],
  });
  console.log(made.key); // shown this once
}

export async function read_api_key(client: Client) {
  const key = await client.apiKeys.get(17);
  console.log(key.name, key.last_used_at);
}

export async function revoke_api_key(client: Client) {
  await client.apiKeys.revoke(17);
}

export async function rotate_key(client: Client) {
  const rotated = await client.apiKeys.rotate({ switch: true });
  console.log(rotated.key); // the one before works for 24 hours more
}

export async function create_session() {
  const ada = new SessionLogin("ada@example.com", "Analytical1");
  const client = new Client({ auth: ada });
  console.log((await client.me()).name);
}

export async function delete_session() {
  const ada = new SessionLogin("ada@example.com", "Analytical1");
  const client = new Client({ auth: ada });
  console.log((await client.me()).name);
  await client.logout();
}

export async function list_events(client: Client) {
  for await (const event of client.events.list({ type: "product.*" })) {
    console.log(event.id, event.type);
  }
}

export async function stream_events(client: Client) {
  for await (const event of client.events.stream({ type: "product.*" })) {
    console.log(event.id, event.type);
  }
}

export async function list_webhooks(client: Client) {
  for (const webhook of await client.webhooks.list()) {
    console.log(webhook.url, webhook.status);
  }
}

export async function create_webhook(client: Client) {
  const webhook = await client.webhooks.create({
    url: "https://example.com/hooks",
    types: ["product.*", "user.created"],
  });
  console.log(webhook.secret); // shown this once
}

export async function read_webhook(client: Client) {
  const webhook = await client.webhooks.get(17);
  console.log(webhook.url, webhook.status);
}

export async function change_webhook(client: Client) {
  const webhook = await client.webhooks.update(17, { types: ["*"], status: "enabled" });
  console.log(webhook.types);
}

export async function delete_webhook(client: Client) {
  await client.webhooks.delete(17);
}

export async function rotate_secret(client: Client) {
  const webhook = await client.webhooks.rotateSecret(17);
  console.log(webhook.secret); // the one before signs for 24 hours more
}

export async function test_webhook(client: Client) {
  await client.webhooks.test(17);
}

export async function list_deliveries(client: Client) {
  for await (const delivery of client.webhooks.deliveries(17)) {
    console.log(delivery.type, delivery.status);
  }
}

export async function redeliver(client: Client) {
  await client.webhooks.redeliver(17, 17);
}

export async function login() {
  const ada = new Login("ada@example.com", "Analytical1");
  const client = new Client({ auth: ada });
  console.log((await client.me()).name);
}

export async function logout() {
  const ada = new Login("ada@example.com", "Analytical1");
  const client = new Client({ auth: ada });
  console.log((await client.me()).name);
  await client.logout();
}

export async function token(callbackUrl: string) {
  const app = new OAuthApp({
    clientId: "client_…",
    clientSecret: "ocs_…",
    redirectUri: "https://example.com/callback",
  });
  const begun = await app.begin("openid read:products");
  // Send the browser to begun.url; it comes back to callbackUrl.
  const tokens = await app.complete(callbackUrl, begun);
  console.log(tokens.scopes);
}

export async function revoke(tokens: OAuthTokens) {
  const app = new OAuthApp({
    clientId: "client_…",
    clientSecret: "ocs_…",
    redirectUri: "https://example.com/callback",
  });
  await app.revoke(tokens);
}

export async function verify_credential(client: Client) {
  const found = await client.verify({ credential: "sk_live_…", scope: "read:products" });
  console.log(found.valid, found.code);
}
