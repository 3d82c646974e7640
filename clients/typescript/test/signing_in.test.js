// Signing in by password, cookie and OAuth tokens: at first use, in time, and once for all.
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { AuthenticationRequired, Client, Login, OAuthError, OAuthTokens, SessionLogin } from "@portico/client";
import { AUTH, KEY, PLACE, rejected, scripted, still } from "./scripted.js";

const HOUR = 3600;
const ME = { status: 200, data: { id: 1 }, headers: { etag: '"tag"' } };
const UNKNOWN = { status: 401, code: "AUTHENTICATION_REQUIRED" };
const bought = (token) => ({
  status: 200,
  body: { access_token: token, refresh_token: `after-${token}`, token_type: "Bearer", expires_in: HOUR },
});

function client(auth, ...steps) {
  const { fetch, requests } = scripted(...steps);
  const options = still();
  const made = new Client({ baseUrl: PLACE, fetch, ...options, ...(typeof auth === "string" ? { accessToken: auth } : { auth }) });
  return { client: made, requests, clock: options.clock, paths: () => requests.map(({ url }) => url.pathname) };
}

const ada = () => new Login("ada@example.com", "Analytical1");
const held = (extra, options) =>
  new OAuthTokens({ accessToken: "old", refreshToken: "r", clientId: "app", clientSecret: "s3cr3t", ...extra }, options);

test("a login signs in once, and refreshes before its token ends", async () => {
  const { client: mine, paths, clock, requests } = client(ada(), bought("one"), ME, ME, bought("two"), ME);
  assert.deepEqual(paths(), [], "nothing is sent before it is needed");
  assert.equal((await mine.me()).etag, '"tag"');
  await mine.me();
  clock.now += HOUR - 9;
  await mine.me();
  assert.deepEqual(paths(), ["/auth/login", "/v1/users/me", "/v1/users/me", "/auth/refresh", "/v1/users/me"]);
  assert.equal(requests.at(-1).headers.authorization, "Bearer two");
});

test("many calls that need a new token share one", async () => {
  const { client: mine, paths } = client(ada(), bought("one"), ...Array(5).fill(ME));
  await Promise.all(Array.from({ length: 5 }, () => mine.me()));
  assert.equal(paths().filter((path) => path === "/auth/login").length, 1);
});

test("what was refused once is not asked for again", async () => {
  const { client: mine, paths } = client(ada(), UNKNOWN);
  const refused = await Promise.all(Array.from({ length: 5 }, () => rejected(mine.me())));
  assert.ok(refused.every((error) => error instanceof AuthenticationRequired));
  assert.deepEqual(paths(), ["/auth/login"]);
});

test("a refused token is renewed once, and a new one that is refused too is not", async () => {
  const { client: mine, paths } = client(ada(), bought("one"), ME, UNKNOWN, UNKNOWN, bought("two"), UNKNOWN);
  await mine.me();
  assert.ok((await rejected(mine.me())) instanceof AuthenticationRequired);
  assert.deepEqual(paths().slice(2), ["/v1/users/me", "/auth/refresh", "/auth/login", "/v1/users/me"]);
});

test("a login is not repeated where it may have happened, and an outage is no refusal", async () => {
  const { client: mine } = client(ada(), { fault: "lost" }, { status: 503, code: "SERVICE_UNAVAILABLE" }, bought("one"), ME);
  assert.equal((await rejected(mine.me())).sent, true);
  assert.equal((await rejected(mine.me())).status, 503);
  assert.equal((await mine.me()).id, 1);
});

test("a code is asked for at each sign-in", async () => {
  const login = new Login("ada@example.com", "Analytical1", { otp: async () => "123456" });
  const { client: mine, requests } = client(login, bought("one"), ME);
  await mine.me();
  assert.deepEqual(JSON.parse(requests[0].body), { email: "ada@example.com", password: "Analytical1", otp: "123456" });
});

test("a session's cookie is found among others, and goes nowhere but where it is sent", async () => {
  const cookie = "balancer=7; Path=/, __Host-session=s3cr3t; Path=/; Secure; HttpOnly";
  const opened = { status: 201, data: {}, headers: { "set-cookie": cookie } };
  const { client: mine, requests } = client(new SessionLogin("ada@example.com", "x"), opened, ME, UNKNOWN, opened, ME, { status: 204 });
  await mine.me();
  await mine.me();
  await mine.logout();
  const own = "__Host-session=s3cr3t";
  assert.deepEqual(requests.map(({ headers }) => headers.cookie), [undefined, own, own, undefined, own, own]);
  assert.equal(`${requests.at(-1).method} ${requests.at(-1).url}`, `DELETE ${PLACE}/sessions`);
});

test("a hostile header of cookies is looked through once", async () => {
  const opened = { status: 201, data: {}, headers: { "set-cookie": `${"__Host-session=".repeat(20_000)}\x7f` } };
  const { client: mine } = client(new SessionLogin("ada@example.com", "x"), opened);
  const began = process.cpuUsage().user;
  await rejected(mine.me());
  assert.ok(process.cpuUsage().user - began < 2e6);
});

test("a login ends, and the next call signs in again", async () => {
  const { client: mine, paths, requests } = client(ada(), bought("one"), ME, { status: 204 }, bought("two"), ME);
  await mine.logout();
  await mine.me();
  await mine.logout();
  await mine.me();
  assert.deepEqual(paths(), ["/auth/login", "/v1/users/me", "/auth/logout", "/auth/login", "/v1/users/me"]);
  assert.deepEqual(JSON.parse(requests[2].body), { refresh_token: "after-one" });
  await assert.rejects(client("token").client.logout(), TypeError);
});

test("a login that has ended already is ended without a fault", async () => {
  const { client: mine, paths } = client(ada(), bought("one"), ME, UNKNOWN, bought("two"), ME);
  await mine.me();
  await mine.logout();
  await mine.me();
  assert.deepEqual(paths(), ["/auth/login", "/v1/users/me", "/auth/logout", "/auth/login", "/v1/users/me"]);
});

test("a refresh token that gets no successor goes on", async () => {
  const { refresh_token: _, ...body } = bought("one").body;
  const { client: mine, requests } = client(held({ expiresAt: new Date(0) }), { status: 200, body }, ME, UNKNOWN, bought("two"), ME);
  await mine.me();
  await mine.me();
  const sent = requests.map((request) => new URLSearchParams(request.body ?? "").get("refresh_token"));
  assert.deepEqual(sent, ["r", null, null, "r", null]);
});

test("a key that cannot be one is refused unseen", () => {
  for (const key of [`${KEY}\n`, `${KEY} x`, `ü${KEY}`]) {
    const refused = (error) => error instanceof TypeError && /visible ASCII/.test(error.message) && !error.message.includes(KEY);
    assert.throws(() => new Client({ apiKey: key, baseUrl: PLACE }), refused);
  }
});

test("OAuth tokens are renewed before they end, and the new ones told first", async () => {
  const told = [];
  const onChange = async (tokens) => void told.push([tokens, paths().length]);
  const tokens = held({ expiresAt: new Date(1_800_000_005_000) }, { onChange });
  const { client: mine, paths, requests } = client(tokens, bought("new"), ME);
  await mine.me();
  const [[renewed, before]] = told;
  assert.equal(before, 1);
  assert.equal(String(requests[0].url), `${AUTH}/token`);
  assert.equal(new URLSearchParams(requests[0].body).get("client_secret"), "s3cr3t");
  assert.deepEqual([renewed.accessToken, renewed.refreshToken], ["new", "after-new"]);
  assert.equal(renewed.expiresAt.getTime(), (1_800_000_000 + HOUR) * 1000);
});

/** A listener that fails so many times before it stores what it is told. */
function failing(times) {
  const stored = [];
  const onChange = async ({ refreshToken }) => {
    if (times-- > 0) throw new Error("the disk is full");
    stored.push(refreshToken);
  };
  return { stored, onChange };
}

test("a listener that fails is heard, and told again of the same tokens before they are used", async () => {
  const { stored, onChange } = failing(2);
  const { client: mine, requests } = client(held({ expiresAt: new Date(0) }, { onChange }), bought("new"), ME, ME);
  for (let time = 0; time < 2; time++) assert.equal((await rejected(mine.me())).message, "the disk is full");
  assert.deepEqual([stored, requests.length], [[], 1]);
  await mine.me();
  await mine.me();
  assert.equal(requests.at(-1).headers.authorization, "Bearer new");
  assert.deepEqual([stored, requests.length], [["after-new"], 3]);
});

test("tokens that nobody could be told of are renewed first where they have ended", async () => {
  const { stored, onChange } = failing(2);
  const tokens = held({ expiresAt: new Date(0) }, { onChange });
  const { client: mine, clock, paths } = client(tokens, bought("one"), bought("two"), ME);
  await rejected(mine.me());
  clock.now += HOUR;
  await rejected(mine.me());
  await mine.me();
  assert.deepEqual([stored, paths()], [["after-two"], ["/auth/token", "/auth/token", "/v1/users/me"]]);
});

for (const [how, later, steps, kept] of [
  ["ended", HOUR, [bought("two"), ME, ME], ["after-two"]],
  ["been revoked", 0, [UNKNOWN, bought("two"), ME, UNKNOWN, ME, ME], ["after-one", "after-two"]],
]) {
  test(`a listener may make calls where the tokens that it did not take have ${how}`, async () => {
    const { stored, onChange } = failing(1);
    let calls = false;
    const calling = async (tokens) => {
      if (calls) await mine.me();
      await onChange(tokens);
    };
    const { client: mine, clock } = client(held({ expiresAt: new Date(0) }, { onChange: calling }), bought("one"), ...steps);
    await rejected(mine.me());
    clock.now += later;
    calls = true;
    assert.equal((await mine.me()).id, 1);
    assert.deepEqual(stored, kept);
  });
}

test("a listener may wait for calls that wait for the tokens", async () => {
  const { client: mine } = client(held({ expiresAt: new Date(0) }, { onChange: () => second }), bought("new"), ME, ME);
  const first = mine.me();
  const second = mine.me();
  assert.deepEqual([(await first).id, (await second).id], [1, 1]);
});

test("a listener may make calls with the tokens that it gets", async () => {
  const { stored, onChange } = failing(1);
  const calling = async (tokens) => {
    assert.equal((await mine.me()).id, 1);
    await onChange(tokens);
  };
  const { client: mine } = client(held({ expiresAt: new Date(0) }, { onChange: calling }), bought("new"), ME, ME, ME);
  await rejected(mine.me());
  await mine.me();
  assert.deepEqual(stored, ["after-new"]);
});

test("tokens that were revoked are refused once, and without a refresh token they end", async () => {
  const invalid = { status: 400, body: { error: "invalid_grant" } };
  const { client: mine, paths } = client(held(), UNKNOWN, UNKNOWN, invalid);
  const refused = await Promise.all([rejected(mine.me()), rejected(mine.me())]);
  assert.ok(refused.every((error) => error instanceof OAuthError));
  assert.equal(paths().length, 3);
  const ended = client(held({ refreshToken: undefined }), UNKNOWN);
  assert.ok((await rejected(ended.client.me())) instanceof AuthenticationRequired);
});

test("tokens can be stored as JSON, and nothing that is printed shows a secret", () => {
  const tokens = held({ expiresAt: new Date(0), scopes: ["openid"] });
  const again = new OAuthTokens(JSON.parse(JSON.stringify(tokens)));
  assert.deepEqual(again.toJSON(), tokens.toJSON());
  const shown = inspect([tokens, ada(), new Client({ apiKey: KEY, baseUrl: PLACE })], { depth: 9 });
  for (const secret of ["old", "s3cr3t", "Analytical1", KEY]) assert.ok(!shown.includes(secret), secret);
});

test("impossible options are told, and no secret with them", () => {
  const wrong = [
    {},
    { apiKey: KEY, accessToken: "x" },
    { apiKey: KEY, baseUrl: "http://portico.example/v1" },
    { apiKey: KEY, baseUrl: "https://user@portico.example/v1" },
    { apiKey: KEY, baseUrl: "https://portico.example/v1?x" },
    { apiKey: KEY, retries: 4 },
    { apiKey: KEY, retries: -1 },
    { apiKey: KEY, patience: -1 },
    { apiKey: KEY, timeout: 0 },
    { apiKey: KEY, timeout: "a" },
    { apiKey: KEY, timeout: Infinity },
    { apiKey: `${KEY}\n` },
  ];
  delete process.env.PORTICO_API_KEY;
  for (const options of wrong) {
    assert.throws(() => new Client(options), (error) => error instanceof TypeError && !error.message.includes(KEY));
  }
});

test("what is empty is not taken for what the environment says", () => {
  process.env.PORTICO_API_KEY = KEY;
  process.env.PORTICO_BASE_URL = "https://portico.example/v1";
  try {
    for (const options of [{ apiKey: "" }, { accessToken: "" }, { baseUrl: "" }, { authUrl: "" }]) {
      assert.throws(() => new Client(options), TypeError, JSON.stringify(options));
    }
    for (const nothing of [undefined, null]) assert.ok(new Client({ apiKey: nothing, accessToken: nothing }));
  } finally {
    delete process.env.PORTICO_API_KEY;
    delete process.env.PORTICO_BASE_URL;
  }
});

test("what is no id is not sent", () => {
  const { client: mine, requests } = client("token");
  for (const id of ["5", "5/../../users", 1.5, null, undefined]) assert.throws(() => mine.products.get(id), TypeError);
  assert.deepEqual(requests, []);
});
