/** Creates a product from each line of a file of JSON objects, ten at once.
 *
 * export PORTICO_API_KEY=… NODE_EXTRA_CA_CERTS=…/tls/ca.pem
 * node bulk_create.js products.ndjson
 *
 * If the program is interrupted, run it again: each line has an idempotency key of its own, so nothing is created twice within
 * 24 hours.
 */

import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { Client, ValidationError } from "@portico/client";

const AT_ONCE = 10;

const client = new Client();
const file = await open(process.argv[2] ?? "products.ndjson");
const lines = file.readLines()[Symbol.asyncIterator]();
let [number, made, wrong] = [0, 0, 0];

/** Creates products from lines, one after the other, until there are no more. */
async function work() {
  for (let next = await lines.next(); !next.done; next = await lines.next()) {
    const line = ++number;
    const idempotencyKey = createHash("sha256").update(`${line} ${next.value}`).digest("hex");
    try {
      await client.products.create(JSON.parse(next.value), { idempotencyKey });
      made += 1;
    } catch (error) {
      if (!(error instanceof ValidationError || error instanceof SyntaxError)) throw error;
      wrong += 1;
      const details = error instanceof ValidationError ? error.details : [{ field: "it", message: "is not JSON" }];
      const faults = details.map(({ field, message }) => `${field} ${message}`);
      console.log(`line ${line}: ${faults.join("; ")}`);
    }
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, work));
console.log(`${made} created, ${wrong} wrong`);
process.exitCode = wrong ? 1 : 0;
