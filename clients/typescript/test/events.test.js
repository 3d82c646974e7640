// Events by type, as the compiler tells them apart.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "@portico/client";
import { KEY, PLACE, scripted } from "./scripted.js";

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
