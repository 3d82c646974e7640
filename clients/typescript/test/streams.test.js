// Events as they happen, over connections that break.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as portico from "@portico/client";
import { KEY, PLACE, rejected, scripted, still, table } from "./scripted.js";

const { Client, Login, UnexpectedAnswer } = portico;

const event = (id) => ({ id, type: "product.created", timestamp: "2026-03-15T12:00:00.000Z", data: { id } });
const message = (id) => `id: ${id}\nevent: product.created\ndata: ${JSON.stringify(event(id))}\n\n`;
const CONTENT = { "content-type": "text/event-stream" };

/** An answer that comes in parts; "break" breaks off, "wait" stays open until the request is aborted. */
const parts = (...wanted) => ({ signal }) => {
  const left = [...wanted];
  const pull = (controller) => {
    const next = left.shift();
    if (next === undefined) return controller.close();
    if (next === "break") return controller.error(new TypeError("terminated"));
    if (next !== "wait") return controller.enqueue(new TextEncoder().encode(next));
    return new Promise((resolve) =>
      signal.addEventListener("abort", () => (controller.error(signal.reason), resolve())),
    );
  };
  return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }), { headers: CONTENT });
};

function streamed(filters, ...steps) {
  const { fetch, requests } = scripted(...steps);
  const options = still([1, 1, 1, 1, 1, 1, 1, 1]);
  const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch, ...options });
  return { stream: client.events.stream(filters), requests, waits: options.waits };
}

async function taken(stream, count) {
  const ids = [];
  for await (const { id } of stream) {
    ids.push(id);
    if (ids.length === count) break;
  }
  return ids;
}

const asked = ({ headers }) => headers["last-event-id"];

test("an event is one wherever its lines are cut, also between CR and LF", async () => {
  const text = message(1).replaceAll("\n", "\r\n");
  for (let cut = 1; cut < text.length; cut++) {
    const { stream } = streamed({ after: 0 }, parts(text.slice(0, cut), text.slice(cut) + message(2), "wait"));
    assert.deepEqual(await taken(stream, 2), [1, 2]);
    const begun = parts(text.slice(0, cut), text.slice(cut, cut + 1), "break");
    const { stream: broken, requests } = streamed({ after: 0 }, begun, parts(message(2), "wait"));
    const whole = cut + 1 >= text.length - 1;
    assert.deepEqual(await taken(broken, 1), [whole ? 1 : 2]);
    assert.deepEqual(requests.map(asked), whole ? ["0"] : ["0", "0"]);
  }
});

test("lines end in every way that they may, and parts anywhere", async () => {
  const text = `\uFEFF${message(1)}`.replaceAll("\n", "\r\n") + message(2).replaceAll("\n", "\r");
  const { stream } = streamed({}, parts(...text), parts("wait"));
  assert.deepEqual(await taken(stream, 2), [1, 2]);
});

/** The part of a stream that a case describes. */
function said(part) {
  if (typeof part === "string") return part;
  const { id, event: number = 1 } = typeof part === "number" ? { id: part, event: part } : part;
  return `id: ${id}\ndata: ${JSON.stringify(event(number))}\n\n`;
}

for (const { name, after, options, steps, told, asked: last, waits, outcome } of table("streams.json")) {
  test(name, async () => {
    const come = ({ sends, broken, times, ...step }) => (sends ? parts(...sends.map(said), ...(broken ? ["break"] : [])) : step);
    const { fetch, requests, left } = scripted(...steps.flatMap((step) => Array(step.times ?? 1).fill(come(step))));
    const { waits: waited, ...rest } = still(Array(99).fill(1));
    const sleep = async (seconds) => assert.ok(waited.push(seconds) < 50, "endless");
    const client = new Client({ apiKey: KEY, baseUrl: PLACE, fetch, ...rest, sleep, ...options });
    const ids = [];
    const following = async () => {
      for await (const { id } of client.events.stream({ after })) {
        ids.push(id);
        if (!outcome && ids.length === told.length) break;
      }
    };
    if (outcome?.error) assert.equal((await rejected(following())).constructor, portico[outcome.error]);
    else await following();
    assert.deepEqual([ids, left], [told, []]);
    if (!outcome) assert.equal(requests.at(-1).signal.aborted, true, "leaving it ends the connection");
    assert.equal(requests[0].headers.accept, "text/event-stream");
    if (waits) assert.deepEqual(waited, waits);
    const sent = requests.map(asked);
    for (const id of sent) assert.equal(new Headers({ id: id ?? "" }).get("id"), id ?? "", "a header can carry it");
    if (last) assert.deepEqual(sent.map((id) => (id === undefined ? null : Buffer.from(id, "latin1").toString())), last);
  });
}

test("a message without an end is an error before it fills the memory, and lines that tell nothing may be any number", async () => {
  const long = "x".repeat(2 ** 20);
  for (const repeated of [long, `data: ${long}\n`]) {
    const begun = message(1) + "data: ";
    const { stream, requests } = streamed({}, parts(begun, ...Array(20).fill(repeated), "wait"));
    assert.equal((await stream.next()).value.id, 1);
    const error = await rejected(stream.next());
    assert.ok(error instanceof UnexpectedAnswer, String(error));
    assert.match(error.message, /larger than 16 MiB/);
    assert.equal(requests[0].signal.aborted, true);
  }
  const { stream } = streamed({}, parts(...Array(20).fill(`: ${long}\n`), message(1), "wait"));
  assert.equal((await stream.next()).value.id, 1);
  stream.close();
});

test("the spaces within an id are looked through once", async () => {
  const id = `1${" ".repeat(100_000)}2`; // which took seconds, and of 16 MiB days
  const begun = process.cpuUsage().user;
  const { stream } = streamed({}, parts(`id: ${id}\n${message(1)}`, "wait"));
  assert.equal((await stream.next()).value.id, 1);
  assert.ok(process.cpuUsage().user - begun < 3_000_000);
  stream.close();
});

test("closing ends a wait for its next event", async () => {
  const { stream, requests, waits } = streamed({}, parts(message(1), "wait"));
  await stream.open();
  assert.equal((await stream.next()).value.id, 1);
  const waiting = stream.next();
  setImmediate(() => stream.close());
  assert.deepEqual(await waiting, { value: undefined, done: true });
  assert.deepEqual(await stream.next(), { value: undefined, done: true });
  assert.equal(requests.length, 1);
  assert.deepEqual(waits, []);
});

test("closing ends a wait for a server that is away", async () => {
  const away = { status: 503, code: "SERVICE_UNAVAILABLE", headers: { "retry-after": "3600" } };
  for (const retries of [3, 0]) {
    for (const first of [[], [parts(message(1))]]) {
      if (!retries && !first.length) continue; // thrown at once
      let closed;
      const last = () => {
        closed = new Promise(setImmediate).then(() => stream.close());
        return new Response(JSON.stringify({}), away);
      };
      const { fetch, left } = scripted(...first, last);
      const options = { retries, patience: 3600, random: () => 0 };
      const stream = new Client({ apiKey: KEY, baseUrl: PLACE, fetch, ...options }).events.stream({});
      assert.deepEqual(await taken(stream, 2), first.map(() => 1));
      await closed;
      assert.deepEqual(left, []);
    }
  }
});

test("closing ends a wait for a new token, and a renewal that has begun goes on", async () => {
  const tokens = { access_token: "a", refresh_token: "r", token_type: "Bearer", expires_in: 3600 };
  let refresh;
  const refreshing = new Promise((resolve) => (refresh = resolve));
  const renews = () => {
    stream.close();
    return refreshing;
  };
  const { fetch, left } = scripted(
    { status: 200, body: tokens },
    parts(message(1)),
    { status: 401, code: "AUTHENTICATION_REQUIRED" },
    renews,
    ({ headers }) => Response.json({ data: headers }),
  );
  const client = new Client({ auth: new Login("ada@example.com", "p"), baseUrl: PLACE, fetch, ...still() });
  const stream = client.events.stream({ after: 0 });
  assert.deepEqual(await taken(stream, 2), [1]);
  const calling = client.me().catch((error) => error);
  refresh(Response.json({ ...tokens, access_token: "b" }));
  await calling;
  assert.deepEqual(left, []);
});

test("a closed stream that has no token yet signs nobody in", async () => {
  const { fetch, requests } = scripted();
  const stream = new Client({ auth: new Login("ada@example.com", "p"), baseUrl: PLACE, fetch }).events.stream({});
  stream.close();
  assert.deepEqual(await stream.next(), { value: undefined, done: true });
  assert.deepEqual(requests, []);
});
