// Entity tags: what is changed by them, and where they come from.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "@portico/client";
import { KEY, PLACE, rejected, scripted, table } from "./scripted.js";

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
