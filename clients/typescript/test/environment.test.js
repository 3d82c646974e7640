// Where the service is: arguments before the environment.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { Client, Login, OAuthApp, TokenVerifier } from "@portico/client";
import { rejected, scripted, still } from "./scripted.js";

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
