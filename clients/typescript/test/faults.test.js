// What the errors of calls without an answer say.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Client, ConnectionFailed, UnexpectedAnswer } from "@portico/client";
import { KEY, rejected, scripted } from "./scripted.js";

/** What a call is rejected with where `fetch` fails for this cause. */
async function failure(cause) {
  const fetch = () => {
    throw new TypeError("fetch failed", { cause });
  };
  return rejected(new Client({ apiKey: KEY, fetch, retries: 0 }).me());
}

test("what a proxy said is told, and not that a request was cancelled", async () => {
  const refused = Object.assign(new Error("Proxy response (407) !== 200 when HTTP Tunneling"), { code: "UND_ERR_ABORTED" });
  const error = await failure(new Error("Request was cancelled.", { cause: refused })); // as undici 7 has it
  assert.ok(error instanceof ConnectionFailed);
  assert.match(error.message, /: Proxy response \(407\) !== 200 when HTTP Tunneling$/);
});

test("a host whose addresses all refuse is told as refused", async () => {
  const error = await failure(Object.assign(new AggregateError([]), { code: "ECONNREFUSED" })); // as Node has it
  assert.match(error.message, /: ECONNREFUSED$/);
  assert.equal(error.sent, false);
});

test("where a cause says nothing, what was thrown does", async () => {
  for (const cause of ["a text", {}, new AggregateError([])]) {
    const error = await failure(cause);
    assert.match(error.message, /: fetch failed$/);
    assert.equal(error.sent, true);
  }
});

test("what Next.js throws to render a page at each request comes through, at once", async () => {
  const dynamic = Object.assign(new Error("Dynamic server usage"), { digest: "DYNAMIC_SERVER_USAGE" });
  let calls = 0;
  const fetch = async () => {
    calls += 1;
    throw dynamic;
  };
  assert.equal(await rejected(new Client({ apiKey: KEY, fetch }).me()), dynamic);
  assert.equal(calls, 1);
});

test("a list that is nothing cannot be understood", async () => {
  const { fetch } = scripted({ status: 200, text: "null" });
  const error = await rejected(new Client({ apiKey: KEY, fetch }).products.list().page(1));
  assert.ok(error instanceof UnexpectedAnswer, String(error));
});

test("a success of something else is told as such, and one of Portico's with its request", async () => {
  const { fetch } = scripted({ status: 200, text: "<html>" }, { status: 200, text: "{}", headers: { "x-request-id": "req_1" } });
  const client = new Client({ apiKey: KEY, fetch });
  assert.equal((await rejected(client.me())).message, "the response 200 is not from Portico");
  assert.equal((await rejected(client.me())).message, "the response 200 cannot be understood [req_1]");
});

test("who is boundlessly patient waits for weeks where a server asks for more than a timer holds", async () => {
  const { fetch } = scripted({ status: 429, code: "RATE_LIMITED", headers: { "retry-after": "9".repeat(400) } }, { data: { id: 1 } });
  const client = new Client({ apiKey: KEY, fetch, patience: Infinity });
  const waits = mock.method(globalThis, "setTimeout", (done) => queueMicrotask(done));
  try {
    await client.me();
  } finally {
    waits.mock.restore();
  }
  const longest = Math.max(...waits.mock.calls.map(({ arguments: [, milliseconds] }) => milliseconds));
  assert.ok(1e9 < longest && longest < 2 ** 31, String(longest));
});
