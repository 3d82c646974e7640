/** Lists products in stock, by words and price.
 *
 * export PORTICO_API_KEY=… NODE_EXTRA_CA_CERTS=…/tls/ca.pem
 * node list_products.js --max-price 30 desk lamp
 */

import { parseArgs } from "node:util";
import { Client } from "@portico/client";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { category: { type: "string" }, "max-price": { type: "string" } },
});
const products = new Client().products.list({
  in_stock: true,
  search: positionals.join(" "),
  ...(values.category && { category: values.category }),
  ...(values["max-price"] && { max_price: Number(values["max-price"]) }),
});
// This reads further pages as needed.
for await (const { id, name, price, currency } of products) console.log(`${id}  ${price.toFixed(2)} ${currency}  ${name}`);
console.log(`${(await products.page(1)).pagination.total_items} products`);
