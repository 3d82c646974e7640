// Keys that are fetched while tokens are verified, and what a receiver of deliveries does wrong itself.
import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import { TokenVerifier, verifyWebhook } from "@portico/client";
import { AUTH, PLACE, still } from "./scripted.js";

const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const KEYS = { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "one" }] };
const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

function token(kid) {
  const input = `${part({ alg: "RS256", kid })}.${part({ sub: "17", iss: AUTH, aud: PLACE, exp: 1_900_000_000 })}`;
  return `${input}.${sign("sha256", Buffer.from(input), privateKey).toString("base64url")}`;
}

test("who has a key that holds does not wait for who fetches", async () => {
  const answers = [];
  const fetch = () => new Promise((resolve) => answers.push(() => resolve(Response.json(KEYS))));
  const { clock, ...options } = still();
  const verifier = new TokenVerifier(AUTH, PLACE, { fetch, clock, ...options });
  const asked = async (count) => {
    while (answers.length < count) await new Promise(setImmediate);
  };
  const first = verifier.verify(token("one"));
  await asked(1);
  answers[0]();
  await first;
  clock.now += 1000;
  const fetching = verifier.verify(token("one"));
  await asked(2);
  assert.equal((await verifier.verify(token("one"))).userId, 17);
  answers[1]();
  assert.equal((await fetching).userId, 17);
  assert.equal(answers.length, 2);
});

const SIGNED_WITH = Buffer.alloc(32, 1);
const SECRET = `whsec_${SIGNED_WITH.toString("base64")}`;
const BODY = JSON.stringify({ id: 7, type: "ping", timestamp: "2026-03-15T12:00:00.000Z", data: {} });
const NOW = 1_800_000_000;
const HEADERS = {
  "webhook-id": "evt_7",
  "webhook-timestamp": `${NOW}`,
  "webhook-signature": `v1,${createHmac("sha256", SIGNED_WITH).update(`evt_7.${NOW}.${BODY}`).digest("base64")}`,
};
const verified = (body) => verifyWebhook(body, HEADERS, SECRET, { clock: () => NOW });

test("a body is taken as a text and as bytes", async () => {
  const bytes = new TextEncoder().encode(BODY);
  for (const body of [BODY, bytes, bytes.buffer, Buffer.from(BODY)]) assert.equal((await verified(body)).id, 7);
});

test("a body that was parsed, or read by somebody else, is a mistake of the receiver's own", async () => {
  for (const body of [JSON.parse(BODY), undefined, null, {}]) {
    await assert.rejects(verified(body), { name: "TypeError", message: "give the body as it came" });
  }
});

test("a secret that is missing, as a variable that is not set, is said to be", async () => {
  for (const secret of [undefined, null, "", [], [undefined], Buffer.from(SECRET)]) {
    await assert.rejects(verifyWebhook(BODY, HEADERS, secret, { clock: () => NOW }), { name: "TypeError", message: /a webhook's secret/ });
  }
});
