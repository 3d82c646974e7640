// What calls ask and say beside the cases: where, of whom, with which filters and tags, and how they fail.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, mock, test } from "node:test";
import { pathToFileURL } from "node:url";
import { Client, ConnectionFailed, Login, OAuthApp, TokenVerifier, UnexpectedAnswer } from "@portico/client";
import { KEY, PLACE, rejected, scripted, still, table } from "./scripted.js";

// Where the service is: arguments before the environment.

const LIVE = { PORTICO_BASE_URL: "https://live.example/v1", PORTICO_AUTH_URL: "https://auth.example" };
const SANDBOX = "https://sandbox.example/v1";
const INTERNAL = "http://portico.internal:8080/v1";

const set = (variables) => Object.assign(process.env, variables);

afterEach(() => {
  delete process.env.PORTICO_BASE_URL;
  delete process.env.PORTICO_AUTH_URL;
});

/** Where a client with these options signs in. */
async function signsInAt(options) {
  const { fetch, requests } = scripted({ status: 401, code: "AUTHENTICATION_REQUIRED" });
  await rejected(new Client({ auth: new Login("ada@example.com", "p"), fetch, ...still(), ...options }).me());
  return requests[0].url.href;
}

const begunAt = async (authUrl) => {
  const app = new OAuthApp({ clientId: "c", redirectUri: "https://shop.example/callback", authUrl });
  return (await app.begin("openid")).url.split("?")[0];
};

test("an address of the authorization server is that of its base, unless both are given", async () => {
  assert.equal(await signsInAt({}), "https://localhost:8443/auth/login");
  set({ PORTICO_BASE_URL: LIVE.PORTICO_BASE_URL });
  assert.equal(await signsInAt({}), "https://live.example/auth/login");
  set(LIVE);
  assert.equal(await signsInAt({}), "https://auth.example/login");
  assert.equal(await signsInAt({ baseUrl: SANDBOX }), "https://sandbox.example/auth/login");
  assert.equal(await signsInAt({ authUrl: "https://own.example" }), "https://own.example/login");
  assert.equal(await signsInAt({ baseUrl: SANDBOX, authUrl: "https://own.example" }), "https://own.example/login");
});

test("what needs the authorization server's address alone takes no other", async () => {
  set({ PORTICO_BASE_URL: INTERNAL });
  assert.equal(await begunAt("https://own.example/auth"), "https://own.example/auth/authorize");
  assert.ok(new TokenVerifier("https://own.example/auth", "audience"));
  await assert.rejects(begunAt(undefined), TypeError);
  assert.throws(() => new TokenVerifier("http://own.example/auth", "audience"), TypeError);
  set({ PORTICO_AUTH_URL: LIVE.PORTICO_AUTH_URL });
  assert.equal(await begunAt(undefined), "https://auth.example/authorize");
});

// What every request says of the library, and asks of the runtime.

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const user = { id: 17 };

test("a request names the library and its version; in a page, the browser names itself", async (t) => {
  const { fetch, requests } = scripted({ status: 200, data: user }, { status: 200, data: user });
  const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
  await client.me();
  // Bundlers define `process` in pages too.
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator"); // none in Node 20
  t.after(() => (before ? Object.defineProperty(globalThis, "navigator", before) : delete globalThis.navigator));
  const userAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
  Object.defineProperty(globalThis, "navigator", { value: { userAgent }, configurable: true });
  await client.me();
  const sent = requests.map(({ headers }) => headers["user-agent"]);
  assert.deepEqual(sent, [`portico-client-js/${version}`, undefined]);
});

test("a request asks for no cached response where the runtime knows the option", async (t) => {
  const { fetch, requests } = scripted({ status: 200, data: user }, { status: 200, data: user });
  const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
  await client.me();
  const known = globalThis.Request;
  t.after(() => void (globalThis.Request = known));
  globalThis.Request = class {}; // as in Cloudflare Workers with an old compatibility date, whose fetch throws
  await client.me();
  assert.deepEqual(requests.map((init) => ["cache" in init, init.cache]), [[true, "no-store"], [false, undefined]]);
});

// Filters that are there, and filters that are not.

const EMPTY = { status: 200, body: { data: [], pagination: { limit: 100, has_more: false } } };

/** Where a call goes with filters, and what it carries. */
async function asking(call) {
  const { fetch, requests } = scripted(EMPTY);
  await call(new Client({ apiKey: KEY, baseUrl: PLACE, fetch }));
  const [{ url, headers }] = requests;
  return { asked: url.search, headers };
}

const first = (list) => list[Symbol.asyncIterator]().next();

for (const [after, last_id] of [[undefined, 0], [7, 7]]) {
  test(`a list of events after ${after} that does not go on is not read for ever`, async () => {
    const page = { status: 200, body: { data: [], pagination: { limit: 100, has_more: true, last_id } } };
    const { events } = new Client({ apiKey: KEY, baseUrl: PLACE, ...scripted(page) });
    assert.ok((await rejected(first(events.list({ after })))) instanceof UnexpectedAnswer);
  });
}

for (const none of [null, undefined]) {
  test(`a filter that is ${none} is none`, async () => {
    const filters = { search: none, category: "lighting", min_price: none, max_price: 0 };
    const page = await asking(({ products }) => products.list(filters).page(1));
    assert.equal(page.asked, "?category=lighting&max_price=0&page=1");
    const events = await asking((client) => client.events.list({ after: none, type: "ping", limit: none }).page());
    assert.equal(events.asked, "?type=ping");
  });

  test(`a list whose limit is ${none} is read by whole pages`, async () => {
    for (const list of [({ users }) => users.list({ limit: none }), ({ events }) => events.list({ limit: none })]) {
      assert.equal((await asking((client) => first(list(client)))).asked, "?limit=100");
    }
  });

  test(`a stream after ${none} begins now`, async () => {
    const { asked, headers } = await asking(({ events }) => rejected(events.stream({ after: none, type: none }).open()));
    assert.deepEqual([asked, "last-event-id" in headers], ["", false]);
  });
}

// Entity tags, and what no header can carry.

const { webhook } = table("calls.json").data;

test("a webhook has its entity tag wherever it is read, made or changed, and in a list none", async () => {
  const step = (number) => ({ status: 200, headers: { etag: `"${number}"` }, data: { ...webhook, secret: "s" } });
  const listed = { status: 200, headers: { etag: '"list"' }, data: [webhook] };
  const { fetch, requests } = scripted(step(1), step(2), step(3), step(4), listed);
  const { webhooks } = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
  const made = await webhooks.create({ url: webhook.url, types: webhook.types });
  const changed = await webhooks.update(5, { types: ["*"] }, { ifMatch: made.etag });
  const rotated = await webhooks.rotateSecret(5);
  const read = await webhooks.get(5);
  assert.deepEqual([made, changed, rotated, read].map(({ etag }) => etag), ['"1"', '"2"', '"3"', '"4"']);
  assert.deepEqual(requests.map(({ headers }) => headers["if-match"]), [undefined, '"1"', undefined, undefined]);
  assert.deepEqual(await webhooks.list(), [webhook]);
});

test("what no header can carry as it is, or is nothing, is not sent", async () => {
  const { fetch, requests } = scripted();
  const { products } = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
  for (const wrong of ["", " ", " a", "a ", "a\n", "a\tb", "a\x7f", "é", "☕"]) {
    const made = products.create({ name: "Lamp", category: "light", price: 1 }, { idempotencyKey: wrong });
    for (const call of [made, products.update(1, { price: 1 }, { ifMatch: wrong }), products.delete(1, { ifMatch: wrong })]) {
      const error = await rejected(call);
      assert.ok(error instanceof TypeError && / must be ASCII /.test(error.message), String(error));
    }
  }
  assert.deepEqual(requests, []);
});

// An event of a newer server.

test("an event of a newer server is passed on under its own name", async () => {
  const newer = { id: 18, type: "order.placed", timestamp: "2026-03-15T12:00:00.000Z", data: { total: 24.5 } };
  const pagination = { limit: 25, has_more: false, last_id: 18 };
  const { fetch } = scripted({ status: 200, text: JSON.stringify({ data: [newer], pagination }) });
  const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
  const found = [];
  for await (const event of client.events.list()) {
    switch (event.type) {
      case "product.created":
        assert.fail();
      default:
        found.push(event);
    }
  }
  assert.deepEqual(found, [newer]);
});

// What the errors of calls without an answer say.

/** What a call is rejected with where `fetch` fails for this cause. */
async function failure(cause) {
  const fetch = () => {
    throw new TypeError("fetch failed", { cause });
  };
  return rejected(new Client({ apiKey: KEY, fetch, retries: 0 }).me());
}

test("what a proxy said is told, and not that a request was cancelled", async () => {
  const refused = Object.assign(new Error("Proxy response (407) !== 200 when HTTP Tunneling"), { code: "UND_ERR_ABORTED" });
  const error = await failure(new Error("Request was cancelled.", { cause: refused })); // as undici 7 has it
  assert.ok(error instanceof ConnectionFailed);
  assert.match(error.message, /: Proxy response \(407\) !== 200 when HTTP Tunneling$/);
});

test("a host whose addresses all refuse is told as refused", async () => {
  const error = await failure(Object.assign(new AggregateError([]), { code: "ECONNREFUSED" })); // as Node has it
  assert.match(error.message, /: ECONNREFUSED$/);
  assert.equal(error.sent, false);
});

test("where a cause says nothing, what was thrown does", async () => {
  for (const cause of ["a text", {}, new AggregateError([])]) {
    const error = await failure(cause);
    assert.match(error.message, /: fetch failed$/);
    assert.equal(error.sent, true);
  }
});

test("what Next.js throws to render a page at each request comes through, at once", async () => {
  const dynamic = Object.assign(new Error("Dynamic server usage"), { digest: "DYNAMIC_SERVER_USAGE" });
  let calls = 0;
  const fetch = async () => {
    calls += 1;
    throw dynamic;
  };
  assert.equal(await rejected(new Client({ apiKey: KEY, fetch }).me()), dynamic);
  assert.equal(calls, 1);
});

test("a list that is nothing cannot be understood", async () => {
  const { fetch } = scripted({ status: 200, text: "null" });
  const error = await rejected(new Client({ apiKey: KEY, fetch }).products.list().page(1));
  assert.ok(error instanceof UnexpectedAnswer, String(error));
});

test("a success of something else is told as such, and one of Portico's with its request", async () => {
  const { fetch } = scripted({ status: 200, text: "<html>" }, { status: 200, text: "{}", headers: { "x-request-id": "req_1" } });
  const client = new Client({ apiKey: KEY, fetch });
  assert.equal((await rejected(client.me())).message, "the response 200 is not from Portico");
  assert.equal((await rejected(client.me())).message, "the response 200 cannot be understood [req_1]");
});

test("who is boundlessly patient waits for weeks where a server asks for more than a timer holds", async () => {
  const { fetch } = scripted({ status: 429, code: "RATE_LIMITED", headers: { "retry-after": "9".repeat(400) } }, { data: { id: 1 } });
  const client = new Client({ apiKey: KEY, fetch, patience: Infinity });
  const waits = mock.method(globalThis, "setTimeout", (done) => queueMicrotask(done));
  try {
    await client.me();
  } finally {
    waits.mock.restore();
  }
  const longest = Math.max(...waits.mock.calls.map(({ arguments: [, milliseconds] }) => milliseconds));
  assert.ok(1e9 < longest && longest < 2 ** 31, String(longest));
});

// Errors are printed with the names that the reference has, whatever a bundler calls their classes.

/** A copy of the library whose errors have classes with short names, as minifiers make them. */
function shortened(place) {
  cpSync(new URL("../dist", import.meta.url), place, { recursive: true });
  writeFileSync(join(place, "package.json"), '{"type": "module"}');
  const code = readFileSync(join(place, "errors.js"), "utf8");
  const names = [...code.matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
  let short = code.replaceAll("export class", "class");
  names.forEach((name, number) => (short = short.replace(new RegExp(`\\b${name}\\b`, "g"), `e${number}`)));
  const exported = names.map((name, number) => `e${number} as ${name}`);
  writeFileSync(join(place, "errors.js"), `${short}\nexport { ${exported.join(", ")} };\n`);
}

test("an error has its own name also where a bundler has shortened that of its class", async () => {
  const place = mkdtempSync(join(tmpdir(), "shortened-"));
  try {
    shortened(place);
    const { Client, NotFound } = await import(pathToFileURL(join(place, "index.js")).href);
    const { fetch } = scripted({ status: 404, code: "RESOURCE_NOT_FOUND" });
    const error = await rejected(new Client({ apiKey: "an-api-key", fetch, ...still() }).me());
    assert.ok(error instanceof NotFound);
    assert.equal(error.name, "NotFound");
    assert.equal(String(error), "NotFound: 404 RESOURCE_NOT_FOUND: No.");
    class Missing extends NotFound {}
    assert.equal(new Missing(404, "", "No.").name, "Missing");
  } finally {
    rmSync(place, { recursive: true });
  }
});

test("an error of something in between is printed without a code", async () => {
  const { fetch } = scripted({ status: 403, text: "<html>" });
  const error = await rejected(new Client({ apiKey: KEY, fetch, ...still() }).me());
  assert.match(String(error), /^APIError: 403: /);
});
