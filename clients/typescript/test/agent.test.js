// How requests name the library.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client } from "@portico/client";
import { KEY, PLACE, scripted } from "./scripted.js";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const user = { id: 17 };

test("a request names the library and its version; in a page, the browser names itself", async () => {
  const { fetch, requests } = scripted({ status: 200, data: user }, { status: 200, data: user });
  const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
  await client.me();
  const { process } = globalThis;
  try {
    delete globalThis.process;
    await client.me();
  } finally {
    globalThis.process = process;
  }
  const sent = requests.map(({ headers }) => headers["user-agent"]);
  assert.deepEqual(sent, [`portico-client-js/${version}`, undefined]);
});
