/** Receives the deliveries of a webhook, and verifies that Portico signed them.
 *
 * export WEBHOOK_SECRET=whsec_…   # shown when the webhook is created
 * node receive_webhooks.js 8002
 */

import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { InvalidDelivery, verifyWebhook } from "@portico/client";

const secret = process.env["WEBHOOK_SECRET"] ?? "";
const seen = new Set(); // a real service would store these in a database table

const server = createServer(async (request, response) => {
  try {
    const event = await verifyWebhook(await buffer(request), request.headers, secret);
    if (!seen.has(event.id)) console.log(event.type, event.data);
    seen.add(event.id);
    response.writeHead(204).end();
  } catch (error) {
    const refused = error instanceof InvalidDelivery;
    if (!refused) console.error(error); // such as a request that broke off: it is sent again
    response.writeHead(refused ? 400 : 500).end(refused ? error.message : "");
  }
});
const port = Number(process.argv[2] ?? 8002);
server.listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/`));
