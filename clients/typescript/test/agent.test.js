// What every request says of the library, and asks of the runtime.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client } from "@portico/client";
import { KEY, PLACE, scripted } from "./scripted.js";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const user = { id: 17 };

test("a request names the library and its version; in a page, the browser names itself", async (t) => {
  const { fetch, requests } = scripted({ status: 200, data: user }, { status: 200, data: user });
  const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
  await client.me();
  // Bundlers define `process` in pages too.
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator"); // none in Node 20
  t.after(() => (before ? Object.defineProperty(globalThis, "navigator", before) : delete globalThis.navigator));
  const userAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
  Object.defineProperty(globalThis, "navigator", { value: { userAgent }, configurable: true });
  await client.me();
  const sent = requests.map(({ headers }) => headers["user-agent"]);
  assert.deepEqual(sent, [`portico-client-js/${version}`, undefined]);
});

test("a request asks for no cached response where the runtime knows the option", async (t) => {
  const { fetch, requests } = scripted({ status: 200, data: user }, { status: 200, data: user });
  const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch });
  await client.me();
  const known = globalThis.Request;
  t.after(() => void (globalThis.Request = known));
  globalThis.Request = class {}; // as in Cloudflare Workers with an old compatibility date, whose fetch throws
  await client.me();
  assert.deepEqual(requests.map((init) => ["cache" in init, init.cache]), [[true, "no-store"], [false, undefined]]);
});
