/** A service that accepts Portico's login tokens.
 *
 * export PORTICO_AUTH_URL=… PORTICO_BASE_URL=… NODE_EXTRA_CA_CERTS=…/tls/ca.pem
 * node verify_token.js 8001
 *
 * curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8001/
 */

import { createServer } from "node:http";
import { InvalidToken, TokenVerifier } from "@portico/client";

const { PORTICO_AUTH_URL, PORTICO_BASE_URL } = process.env;
const verifier = new TokenVerifier(
  PORTICO_AUTH_URL ?? "https://localhost:8443/auth",
  PORTICO_BASE_URL ?? "https://localhost:8443/v1",
);

const server = createServer(async (request, response) => {
  const [, token] = /^bearer (.+)$/i.exec(request.headers.authorization ?? "") ?? [];
  const [status, body] = await answer(token);
  response.writeHead(status, { "content-type": "application/json", ...(status === 401 && { "www-authenticate": "Bearer" }) });
  response.end(JSON.stringify(body));
});

/** The status and body for a caller with this token.
 * @param {string | undefined} token
 * @returns {Promise<[number, object]>} */
async function answer(token) {
  if (!token) return [401, { error: "send a bearer token" }];
  try {
    const { userId, name, role } = await verifier.verify(token);
    return [200, { user: userId, name, role }];
  } catch (error) {
    if (error instanceof InvalidToken) return [401, { error: error.message }];
    return [503, { error: "the issuer's keys cannot be fetched" }];
  }
}

const port = Number(process.argv[2] ?? 8001);
server.listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/`));
