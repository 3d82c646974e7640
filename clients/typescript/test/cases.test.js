// The cases that every client keeps, see ../../cases.
import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import * as portico from "@portico/client";
import { camel, KEY, PLACE, rejected, scripted, still, table } from "./scripted.js";

const { Client, Login, OAuthApp, SessionLogin } = portico;

/** What must come of a promise. */
async function keeps(promise, outcome, done) {
  if (outcome === "done") return assert.deepEqual(done(await promise), true);
  const { error: name, ...attributes } = outcome;
  const error = await rejected(promise);
  assert.equal(error.constructor, portico[name], String(error));
  for (const [attribute, value] of Object.entries(attributes)) assert.equal(error[camel(attribute)], value, attribute);
}

const { cases, calls, data, now } = table("calls.json");

function made(client, { do: path, kind, id, fields, if_match: ifMatch, idempotency_key: idempotencyKey }) {
  const [noun, verb] = path.split(".").map(camel);
  const options = { ...(ifMatch && { ifMatch }), ...(idempotencyKey && { idempotencyKey }) };
  const given = [id, fields].filter((one) => one !== undefined);
  return (kind ? client.kind(noun) : client[noun])[verb](...given, options);
}

const deleted = { status: 204 };

for (const { name, calls: names, options, steps, draws = [], waits = [], sent = {}, outcome } of cases) {
  for (const called of names) {
    test(`${name}: ${called}`, async () => {
      const call = calls[called];
      const done = call.do.endsWith("delete") ? deleted : { status: 200, data: data.product };
      const told = steps.map((step) => (step === "done" ? done : { ...step, data: data[step.data] }));
      const { fetch, requests, left } = scripted(...told);
      const { waits: waited, ...rest } = still(draws, now);
      const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch, ...rest, ...options });
      await keeps(made(client, call), outcome, (found) => (done === deleted ? found === undefined : found.id === 1));
      assert.equal(left.length, 0, "every step was taken");
      assert.deepEqual(waited, waits);
      const alike = requests.map(({ signal, ...request }) => JSON.stringify(request));
      assert.equal(new Set(alike).size, 1, "the same is repeated");
      for (const [header, value] of Object.entries(sent)) assert.equal(requests[0].headers[header], value);
    });
  }
}

for (const { name, pages, read, given, outcome = "done" } of table("paging.json")) {
  test(name, async () => {
    const pagination = { page: 1, limit: 2, total_items: 5, total_pages: 3 };
    const steps = pages.map(({ ids = [], link, times = 1, text }) => ({
      status: 200,
      headers: link ? { link: link.repeat(times) } : {},
      body: { data: ids.map((id) => ({ ...data.product, id })), pagination },
      text,
    }));
    const { fetch, requests } = scripted(...steps);
    const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
    const listed = async () => {
      const found = [];
      for await (const { id } of client.products.list({ limit: 2 })) found.push(id);
      return found;
    };
    await keeps(listed(), outcome, (found) => isDeepStrictEqual(found, given));
    assert.deepEqual(
      requests.map(({ url }) => url.href),
      read.map((cursor) => `${PLACE}/products?limit=2${cursor ? `&cursor=${cursor}` : ""}`),
    );
  });
}

const signingIn = table("signing_in.json");

for (const { name, ways, codes, calls: made, sent } of signingIn.cases) {
  for (const way of ways) {
    test(`${name}: ${way}`, async () => {
      const { path, in: entered } = signingIn.ways[way];
      const answers = { ...signingIn.answers, in: entered };
      const { fetch, requests, left } = scripted(...made.flatMap(({ steps }) => steps.map((step) => answers[step])));
      const given = codes && [...codes];
      const Kind = way === "login" ? Login : SessionLogin;
      const auth = new Kind("ada@example.com", "Analytical1", given && { otp: () => given.shift() });
      const client = new Client({ baseUrl: PLACE, auth, fetch, ...still() });
      let asked = 0;
      for (const { steps, outcome } of made) {
        await keeps(client.me(), outcome, ({ id }) => id === 1);
        asked += steps.length;
        assert.equal(requests.length, asked);
      }
      assert.deepEqual([left, given ?? []], [[], []], "every step and every code was taken");
      const bodies = requests.filter(({ url }) => url.pathname === path).map(({ body }) => JSON.parse(body));
      assert.deepEqual(bodies.map(({ otp = null }) => otp), sent);
    });
  }
}

const callbacks = table("callbacks.json");

for (const { name, callback, added = "", begun, answers = [], outcome } of callbacks.cases) {
  test(name, async () => {
    const { fetch, requests } = scripted(...answers.map((answer) => ({ body: callbacks.bought, ...answer })));
    const { client_id: clientId, client_secret: clientSecret, redirect_uri: redirectUri, auth_url: authUrl } = callbacks;
    const app = new OAuthApp({ clientId, clientSecret, redirectUri, authUrl, fetch, ...still() });
    const sent = Object.entries({ ...callbacks.callback, ...callback }).filter(([, value]) => value !== null);
    const { code_verifier: codeVerifier, ...rest } = { ...callbacks.begun, ...begun };
    const completed = app.complete(`${redirectUri}?${new URLSearchParams(sent)}${added}`, { ...rest, codeVerifier });
    await keeps(completed, outcome, ({ accessToken, refreshToken }) => accessToken === "a" && refreshToken === "r");
    assert.equal(requests.length, answers.length);
    for (const { method, url, body } of requests) {
      assert.equal(`${method} ${url}`, `POST ${authUrl}/token`);
      assert.deepEqual(Object.fromEntries(new URLSearchParams(body)), callbacks.form);
    }
  });
}

const tokens = table("tokens.json");
const pairs = new Map(["one", "two"].map((kid) => [kid, generateKeyPairSync("rsa", { modulusLength: 2048 })]));

function published({ kid, ...changes }) {
  const jwk = pairs.get(kid).publicKey.export({ format: "jwk" });
  return { ...jwk, kid, use: "sig", alg: "RS256", ...changes };
}

const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const whole = (base, changes) => Object.fromEntries(Object.entries({ ...base, ...changes }).filter(([, value]) => value !== null));

function tokenOf({ text, claims, header, key = "one", swap, unsigned, long }) {
  if (text !== undefined) return text;
  const said = whole(tokens.claims, { ...claims, ...(long && { name: "x".repeat(long) }) });
  const input = `${part(whole(tokens.header, header))}.${part(said)}`;
  const signature = sign("sha256", Buffer.from(input), pairs.get(key).privateKey).toString("base64url");
  if (unsigned) return `${input}.`;
  return swap ? `${input.split(".")[0]}.${part({ ...said, ...swap })}.${signature}` : `${input}.${signature}`;
}

for (const { name, verifies, published: first = [{ kid: "one" }, { kid: "two" }] } of tokens.cases) {
  test(name, async () => {
    let keys = first;
    let [away, takes, page] = [];
    let fetched = 0;
    const fetch = async (url) => {
      fetched += 1;
      assert.equal(String(url), `${tokens.issuer}/.well-known/jwks.json`);
      options.clock.now += takes ?? 0;
      if (away) throw new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } });
      if (page) return new Response(page);
      return Response.json({ keys: keys.map(published) });
    };
    const { waits, ...options } = still([], tokens.now);
    const verifier = new portico.TokenVerifier(tokens.issuer, tokens.audience, { fetch, ...options });
    for (const facts of verifies) {
      const { after = 0, fetches = 0, believed, error = "InvalidToken" } = facts;
      options.clock.now += after;
      ({ away, takes, page, published: keys = keys } = facts);
      fetched = 0;
      const outcome = believed ? "done" : { error };
      await keeps(verifier.verify(tokenOf(facts)), outcome, ({ subject, userId }) => subject === "17" && userId === 17);
      assert.equal(fetched, fetches);
    }
  });
}

const deliveries = table("webhooks.json");

function secretOf({ from, bytes, text }) {
  return text ?? `whsec_${Buffer.from(Array.from({ length: bytes }, (_, place) => from + place)).toString("base64")}`;
}

for (const { name, headers, body = deliveries.body, secrets = deliveries.secrets, tolerance, event, outcome } of deliveries.cases) {
  test(name, async () => {
    const sent = whole(deliveries.headers, headers);
    const options = { clock: () => deliveries.now, ...(tolerance && { tolerance }) };
    const given = secrets.length === 1 ? secretOf(secrets[0]) : secrets.map(secretOf);
    for (const bytes of [body, Buffer.from(body)]) {
      const verified = portico.verifyWebhook(bytes, sent, given, options);
      if (outcome.error === "argument") {
        assert.equal((await rejected(verified)).constructor, TypeError);
      } else {
        const { id, type } = event ?? deliveries.event;
        await keeps(verified, outcome, (found) => found.id === id && found.type === type);
      }
    }
  });
}
