import * as client from "openid-client";

import { connect, device, issuer, refusal, tell, worker } from "./conversation.js";

const server = new URL(issuer);

/** A program with a key of its own, in place of a secret. */
async function sign({ clientId, jwk }, algorithm) {
  const key = await crypto.subtle.importKey("jwk", jwk, algorithm, false, ["sign"]);
  const config = await client.discovery(server, clientId, undefined, client.PrivateKeyJwt(key));
  const tokens = await client.clientCredentialsGrant(config, { scope: "read:products" });
  const before = await client.tokenIntrospection(config, tokens.access_token);
  await client.tokenRevocation(config, tokens.access_token);
  const after = await client.tokenIntrospection(config, tokens.access_token);
  return { scope: tokens.scope, before: before.active, after: after.active };
}

/** A program without a browser. */
async function signIn(decision) {
  const config = await client.discovery(server, device.clientId, undefined, client.None());
  const begun = await client.initiateDeviceAuthorization(config, { scope: "openid read:products" });
  await connect(begun.verification_uri_complete, begun.user_code, decision);
  const poll = () => client.pollDeviceAuthorizationGrant(config, begun);
  if (decision === "deny") {
    return (await refusal(poll())).error;
  }
  const tokens = await poll();
  return { scope: tokens.scope, sub: tokens.claims().sub };
}

const elliptic = { name: "ECDSA", namedCurve: "P-256" };
tell({
  signed: await sign(worker, elliptic),
  allowed: await signIn("allow"),
  denied: await signIn("deny"),
});
