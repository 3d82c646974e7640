// The cases that every client keeps, see ../../cases.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as portico from "@portico/client";
import { camel, KEY, PLACE, rejected, scripted, still, table } from "./scripted.js";

const { Client } = portico;

/** What must come of a promise. */
async function keeps(promise, outcome, done) {
  if (outcome === "done") return assert.deepEqual(done(await promise), true);
  const { error: name, ...attributes } = outcome;
  const error = await rejected(promise);
  assert.equal(error.constructor, portico[name], String(error));
  for (const [attribute, value] of Object.entries(attributes)) assert.equal(error[camel(attribute)], value, attribute);
}

const { cases, calls, data } = table("calls.json");

function made(client, { do: path, id, fields, if_match: ifMatch, idempotency_key: idempotencyKey }) {
  const [noun, verb] = path.split(".").map(camel);
  const options = { ...(ifMatch && { ifMatch }), ...(idempotencyKey && { idempotencyKey }) };
  const given = [id, fields].filter((one) => one !== undefined);
  return client[noun][verb](...given, options);
}

const deleted = { status: 204 };

for (const { name, calls: names, options, steps, draws = [], waits = [], sent = {}, outcome } of cases) {
  for (const called of names) {
    test(`${name}: ${called}`, async () => {
      const call = calls[called];
      const done = call.do.endsWith("delete") ? deleted : { status: 200, data: data.product };
      const told = steps.map((step) => (step === "done" ? done : { ...step, data: data[step.data] }));
      const { fetch, requests, left } = scripted(...told);
      const { waits: waited, ...rest } = still(draws);
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

for (const { name, pages, read, given } of table("paging.json")) {
  test(name, async () => {
    const steps = pages.map(({ ids, ...counts }, place) => ({
      status: 200,
      body: { data: ids.map((id) => ({ ...data.product, id })), pagination: { page: read[place], limit: 2, ...counts } },
    }));
    const { fetch, requests } = scripted(...steps);
    const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
    const found = [];
    for await (const { id } of client.products.list({ limit: 2 })) found.push(id);
    assert.deepEqual(found, given);
    assert.deepEqual(
      requests.map(({ url }) => url.search),
      read.map((page) => `?limit=2&page=${page}`),
    );
  });
}
