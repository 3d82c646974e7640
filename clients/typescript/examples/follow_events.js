/** Prints events of products as they happen, and resumes where it was when it is restarted.
 *
 * export PORTICO_API_KEY=… NODE_EXTRA_CA_CERTS=…/tls/ca.pem
 * node follow_events.js last-event
 */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Client } from "@portico/client";

const place = process.argv[2] ?? "last-event";
const after = existsSync(place) ? Number(readFileSync(place, "utf8")) : 0;
process.once("SIGINT", () => process.exit(0));
for await (const event of new Client().events.stream({ type: "product.*,products.imported", after })) {
  console.log(event.id, event.type);
  writeFileSync(place, String(event.id));
}
