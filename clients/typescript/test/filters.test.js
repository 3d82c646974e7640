// Filters that are there, and filters that are not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, UnexpectedAnswer } from "@portico/client";
import { KEY, PLACE, rejected, scripted } from "./scripted.js";

const PAGE = { status: 200, body: { data: [], pagination: { limit: 100, has_more: false } } };

/** Where a call goes with filters, and what it carries. */
async function sent(call) {
  const { fetch, requests } = scripted(PAGE);
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
    const page = await sent(({ products }) => products.list(filters).page(1));
    assert.equal(page.asked, "?category=lighting&max_price=0&page=1");
    const events = await sent((client) => client.events.list({ after: none, type: "ping", limit: none }).page());
    assert.equal(events.asked, "?type=ping");
  });

  test(`a list whose limit is ${none} is read by whole pages`, async () => {
    for (const list of [({ users }) => users.list({ limit: none }), ({ events }) => events.list({ limit: none })]) {
      assert.equal((await sent((client) => first(list(client)))).asked, "?limit=100");
    }
  });

  test(`a stream after ${none} begins now`, async () => {
    const { asked, headers } = await sent(({ events }) => rejected(events.stream({ after: none, type: none }).open()));
    assert.deepEqual([asked, "last-event-id" in headers], ["", false]);
  });
}
