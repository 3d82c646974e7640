/** Receives what a webhook delivers, and believes what Portico signed.
 *
 * export WEBHOOK_SECRET=whsec_…   # shown when the webhook is made
 * node receive_webhooks.js 8002
 */

import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { InvalidDelivery, verifyWebhook } from "@portico/client";

const secret = process.env["WEBHOOK_SECRET"] ?? "";
const seen = new Set(); // in a service that may restart, a table

const server = createServer(async (request, response) => {
  try {
    const event = await verifyWebhook(await buffer(request), request.headers, secret);
    if (!seen.has(event.id)) console.log(event.type, event.data);
    seen.add(event.id);
    response.writeHead(204).end();
  } catch (error) {
    const refused = error instanceof InvalidDelivery;
    if (!refused) console.error(error); // such as one that was broken off: it comes again
    response.writeHead(refused ? 400 : 500).end(refused ? error.message : "");
  }
});
const port = Number(process.argv[2] ?? 8002);
server.listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/`));
