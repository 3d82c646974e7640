// Calls that are ended by a signal: wherever they are, at once, and with its reason.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { Client, Login } from "@portico/client";
import { AUTH, KEY, PLACE, rejected, scripted, still } from "./scripted.js";

const MADE = { id: 1, name: "Lamp" };
const PAGE = { status: 200, body: { data: [MADE], pagination: { limit: 25 } }, headers: { link: '<?cursor=next>; rel="next"' } };
const BOUGHT = { access_token: "a", refresh_token: "r", token_type: "Bearer", expires_in: 3600 };

const made = (fetch, options = still()) => new Client({ apiKey: KEY, baseUrl: PLACE, fetch, ...options });

/** A server that is silent until the request is ended, and tells when it was asked. */
function silent() {
  let ask;
  const asked = new Promise((resolve) => (ask = resolve));
  const step = ({ signal }) =>
    new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      ask();
    });
  return { step, asked };
}

const first = (list) => list[Symbol.asyncIterator]().next();

/** Every call, by which it is made with options. */
const CALLS = {
  me: (client, options) => client.me(options),
  updateMe: (client, options) => client.updateMe({ name: "Ada" }, options),
  "products.page": (client, options) => client.products.list({}, options).page(1),
  "products.list": (client, options) => first(client.products.list({}, options)),
  "products.get": (client, options) => client.products.get(1, options),
  "products.create": (client, options) => client.products.create(MADE, options),
  "products.update": (client, options) => client.products.update(1, MADE, options),
  "products.delete": (client, options) => client.products.delete(1, options),
  "apiKeys.list": (client, options) => client.apiKeys.list({}, options).page(1),
  "apiKeys.get": (client, options) => client.apiKeys.get(1, options),
  "apiKeys.create": (client, options) => client.apiKeys.create({ name: "k" }, options),
  "apiKeys.revoke": (client, options) => client.apiKeys.revoke(1, options),
  "apiKeys.rotate": (client, options) => client.apiKeys.rotate({ switch: true, ...options }),
  "events.page": (client, options) => client.events.list({}, options).page(),
  "events.list": (client, options) => first(client.events.list({}, options)),
  "events.stream": (client, options) => client.events.stream({}, options).next(),
  "events.stream.open": (client, options) => client.events.stream({}, options).open(),
  "webhooks.list": (client, options) => client.webhooks.list(options),
  "webhooks.get": (client, options) => client.webhooks.get(1, options),
  "webhooks.create": (client, options) => client.webhooks.create({ url: "https://shop.example" }, options),
  "webhooks.update": (client, options) => client.webhooks.update(1, {}, options),
  "webhooks.delete": (client, options) => client.webhooks.delete(1, options),
  "webhooks.rotateSecret": (client, options) => client.webhooks.rotateSecret(1, options),
  "webhooks.test": (client, options) => client.webhooks.test(1, options),
  "webhooks.deliveries": (client, options) => client.webhooks.deliveries(1, {}, options).page(1),
  "webhooks.redeliver": (client, options) => client.webhooks.redeliver(1, 2, options),
};

for (const [name, call] of Object.entries(CALLS)) {
  test(`a signal ends a call that waits for its answer, and nothing is repeated: ${name}`, async () => {
    const { step, asked } = silent();
    const { fetch, requests } = scripted(step);
    const stop = new AbortController();
    const calling = rejected(call(made(fetch), { signal: stop.signal }));
    await asked;
    stop.abort();
    assert.equal(await calling, stop.signal.reason);
    assert.equal(requests.length, 1);
  });
}

test("a signal ends a call that reads its answer", async () => {
  const stop = new AbortController();
  const cut = ({ signal }) => {
    const pull = (controller) => {
      signal.addEventListener("abort", () => controller.error(signal.reason));
      stop.abort("enough");
    };
    return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }));
  };
  const { fetch, requests } = scripted(cut);
  assert.equal(await rejected(made(fetch).me({ signal: stop.signal })), "enough");
  assert.equal(requests.length, 1);
});

test("a signal ends a call that waits to be repeated", async () => {
  const stop = new AbortController();
  const busy = () => {
    setImmediate(() => stop.abort());
    return new Response("", { status: 429, headers: { "retry-after": "3600" } });
  };
  const { fetch, requests } = scripted(busy);
  const calling = made(fetch, { patience: 3600 }).products.get(1, { signal: stop.signal });
  assert.equal(await rejected(calling), stop.signal.reason);
  assert.equal(requests.length, 1);
});

test("a signal that has ended lets nothing be sent, and signs nobody in", async () => {
  const { fetch, requests } = scripted();
  const signal = AbortSignal.abort();
  const auth = new Login("ada@example.com", "p");
  for (const client of [made(fetch), new Client({ auth, baseUrl: PLACE, fetch })]) {
    assert.equal(await rejected(client.me({ signal })), signal.reason);
  }
  assert.deepEqual(requests, []);
});

/** A stream of one event, which stays open until it is ended; a `busy` one says later to come back in an hour. */
const EVENT = { id: 1, type: "product.created", timestamp: "2026-03-15T12:00:00.000Z", data: {} };
const telling = (busy) => ({ signal }) => {
  const start = (controller) => {
    controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(EVENT)}\n\n`));
    if (busy) controller.close();
    else signal.addEventListener("abort", () => controller.error(signal.reason));
  };
  return new Response(new ReadableStream({ start }), { headers: { "content-type": "text/event-stream" } });
};

for (const busy of [false, true]) {
  test(`a signal ends a stream that waits ${busy ? "to connect again" : "for its next event"}, with its reason`, async () => {
    const stop = new AbortController();
    const { fetch, requests } = scripted(telling(busy));
    const sleep = async () => void stop.abort();
    const client = made(fetch, busy ? { sleep } : {});
    const stream = client.events.stream({}, { signal: stop.signal });
    assert.equal((await stream.next()).value.id, 1);
    const waiting = rejected(stream.next());
    if (!busy) setImmediate(() => stop.abort());
    assert.equal(await waiting, stop.signal.reason);
    assert.deepEqual(await stream.next(), { value: undefined, done: true });
    assert.equal(requests.length, 1);
    assert.equal(requests[0].signal.aborted, true);
  });
}

test("a signal that has ended begins no stream", async () => {
  const { fetch, requests } = scripted();
  const signal = AbortSignal.abort();
  assert.equal(await rejected(made(fetch).events.stream({}, { signal }).next()), signal.reason);
  assert.deepEqual(requests, []);
});

test("a stream that is closed or left ends quietly, and keeps nothing of its signal", async () => {
  const stop = new AbortController();
  const { signal } = stop;
  const { fetch } = scripted(telling(), telling(), { status: 403, code: "PERMISSION_DENIED" });
  const client = made(fetch);
  client.events.stream({}, { signal }); // never begun
  for await (const { id } of client.events.stream({}, { signal })) {
    assert.equal(id, 1);
    assert.equal(getEventListeners(signal, "abort").length, 1);
    break;
  }
  const stream = client.events.stream({}, { signal });
  await stream.next();
  const waiting = stream.next();
  const refused = client.events.stream({}, { signal });
  assert.equal((await rejected(refused.open())).status, 403);
  stream.close();
  assert.deepEqual(getEventListeners(signal, "abort"), []);
  stop.abort();
  assert.deepEqual(await waiting, { value: undefined, done: true });
  assert.equal((await rejected(refused.next())).status, 403);
});

test("a signal between two pages ends the list", async () => {
  const { fetch, requests } = scripted(PAGE);
  const stop = new AbortController();
  const found = [];
  const reading = async () => {
    for await (const { id } of made(fetch).products.list({}, { signal: stop.signal })) {
      found.push(id);
      stop.abort();
    }
  };
  assert.equal(await rejected(reading()), stop.signal.reason);
  assert.deepEqual([found, requests.length], [[1], 1]);
});

test("a signal ends its call alone, and a sign-in that others wait for goes on", async () => {
  const stop = new AbortController();
  let enter;
  const entering = new Promise((resolve) => (enter = resolve));
  const { fetch, requests } = scripted(() => entering, { data: MADE });
  const client = new Client({ auth: new Login("ada@example.com", "p"), baseUrl: PLACE, fetch, ...still() });
  const [left, stays] = [rejected(client.me({ signal: stop.signal })), client.me()];
  stop.abort();
  assert.equal(await left, stop.signal.reason);
  enter(Response.json(BOUGHT));
  assert.equal((await stays).id, 1);
  assert.deepEqual(requests.map(({ url }) => url.href), [`${AUTH}/login`, `${PLACE}/users/me`]);
});

test("a signal ends a logout, and the login stays", async () => {
  const { step, asked } = silent();
  const { fetch, requests } = scripted({ body: BOUGHT }, { data: MADE }, step, { data: MADE });
  const client = new Client({ auth: new Login("ada@example.com", "p"), baseUrl: PLACE, fetch, ...still() });
  await client.me();
  const stop = new AbortController();
  const leaving = rejected(client.logout({ signal: stop.signal }));
  await asked;
  stop.abort();
  assert.equal(await leaving, stop.signal.reason);
  await client.me();
  assert.equal(requests.length, 4);
});

const slow = () => new Promise((resolve) => setImmediate(setImmediate, resolve, Response.json(BOUGHT)));

for (const [when, options, step] of [
  ["wait for their answers", { apiKey: KEY }, silent().step],
  ["wait to be repeated", { apiKey: KEY }, { status: 503, code: "SERVICE_UNAVAILABLE" }],
  ["wait for a sign-in", { auth: new Login("ada@example.com", "p") }, slow],
]) {
  test(`a signal has one listener for all calls that ${when}, and ends them all`, async () => {
    const { fetch } = scripted(...Array(20).fill(step));
    const client = new Client({ ...options, baseUrl: PLACE, fetch });
    const stop = new AbortController();
    const calls = Array.from({ length: 20 }, () => rejected(client.me({ signal: stop.signal })));
    await new Promise(setImmediate);
    assert.equal(getEventListeners(stop.signal, "abort").length, 1);
    stop.abort();
    assert.deepEqual(await Promise.all(calls), Array(20).fill(stop.signal.reason));
  });
}

test("a signal that lives on keeps nothing of calls that are over", async () => {
  const { signal } = new AbortController();
  const lost = { fault: "lost" };
  const { fetch } = scripted({ data: MADE }, lost, { data: MADE }, { status: 404, code: "RESOURCE_NOT_FOUND" });
  const client = made(fetch);
  await client.me({ signal });
  await client.me({ signal });
  await rejected(client.me({ signal }));
  assert.deepEqual(getEventListeners(signal, "abort"), []);
});
