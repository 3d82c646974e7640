// What a receiver does wrong itself (a body that was parsed, a secret that is missing) is told apart from a delivery that must not
// be believed.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { verifyWebhook } from "@portico/client";

const KEY = Buffer.alloc(32, 1);
const SECRET = `whsec_${KEY.toString("base64")}`;
const BODY = JSON.stringify({ id: 7, type: "ping", timestamp: "2026-03-15T12:00:00.000Z", data: {} });
const NOW = 1_800_000_000;
const HEADERS = {
  "webhook-id": "evt_7",
  "webhook-timestamp": `${NOW}`,
  "webhook-signature": `v1,${createHmac("sha256", KEY).update(`evt_7.${NOW}.${BODY}`).digest("base64")}`,
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
