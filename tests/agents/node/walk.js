// What both clients do, and tell.
import { once } from "node:events";
import { createServer } from "node:http";

const [url, kind, credential] = process.argv.slice(2);

/** A client that has a document, or registers itself. Its user follows what it prints, and comes back to `port`. */
function unregistered(document, port) {
  const kept = {};
  const redirectUrl = `http://127.0.0.1:${port}/callback`;
  return {
    redirectUrl,
    clientMetadataUrl: document || undefined,
    clientMetadata: { redirect_uris: [redirectUrl], token_endpoint_auth_method: "none" },
    redirectToAuthorization: (address) => console.error(address.href),
    clientInformation: () => kept.client,
    saveClientInformation: (client) => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (tokens) => void (kept.tokens = tokens),
    codeVerifier: () => kept.verifier,
    saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  };
}

async function connect(client, Transport) {
  const to = (options) => new Transport(new URL(url), options);
  if (kind === "key") {
    const headers = { authorization: `Bearer ${credential}` };
    return client.connect(to({ requestInit: { headers } }));
  }
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const authProvider = unregistered(credential, server.address().port);
  const first = to({ authProvider });
  const refused = await client.connect(first).catch((error) => error);
  if (refused?.constructor.name !== "UnauthorizedError") throw refused ?? new Error("it asked nobody");
  const [request, response] = await once(server, "request");
  response.setHeader("connection", "close").end();
  server.close();
  const told = new URL(request.url, authProvider.redirectUrl).searchParams;
  await first.finishAuth(told.get("code"), told.get("iss"));
  return client.connect(to({ authProvider }));
}

export async function walk(client, Transport) {
  await connect(client, Transport);
  const { tools } = await client.listTools();
  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    return { isError: result.isError === true, text: result.content[0].text };
  };
  const found = {
    revision: client.transport.protocolVersion,
    tools: tools.map((tool) => tool.name),
    products: await call("list_records", { kind: "products" }),
    missing: await call("read_record", { kind: "products", id: 999999 }),
  };
  await client.close();
  console.log(JSON.stringify(found));
}
