// Keys that are fetched while tokens are verified.
import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";
import { TokenVerifier } from "@portico/client";
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
