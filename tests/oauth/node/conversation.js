// Talks with the test that runs this program: one JSON value a line. First comes what the program
// must know; then the program asks for visits, and at the end it tells what it has found.
import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function heard() {
  return JSON.parse((await lines.next()).value);
}

export const { issuer, api, webApp, nativeApp, site, worker, device, scope } = await heard();

/** The callback that the user's browser is sent to, who decides `allow` or `deny`. */
export async function visit(url, decision = "allow") {
  console.log(JSON.stringify({ visit: url.toString(), decision }));
  return new URL((await heard()).callback);
}

/** Has the user decide on the code that a device shows. */
export async function connect(url, code, decision) {
  console.log(JSON.stringify({ device: url, code, decision }));
  await heard();
}

export function tell(found) {
  console.log(JSON.stringify({ found }));
  process.stdin.destroy();
}

/** What a promise is rejected with. */
export async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("this was not refused");
}
