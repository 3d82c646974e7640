import * as client from "openid-client";

import { issuer, scope, tell, visit, webApp } from "./conversation.js";

const config = await client.discovery(
  new URL(issuer), webApp.clientId, undefined, client.ClientSecretBasic(webApp.clientSecret),
);

/** The callback of a sign-in for which no page may be shown, or of one that shows what it must. */
async function callback(silent) {
  const state = client.randomState();
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: webApp.redirectUri,
    scope,
    state,
    ...(silent ? { prompt: "none" } : {}),
  });
  return { callback: await visit(url), checks: { expectedState: state, idTokenExpected: true } };
}

async function signIn(silent) {
  const back = await callback(silent);
  return (await client.authorizationCodeGrant(config, back.callback, back.checks)).id_token;
}

async function error(silent) {
  return (await callback(silent)).callback.searchParams.get("error");
}

const claims = (token) => JSON.parse(Buffer.from(token.split(".")[1], "base64url"));

const first = await signIn(false);
const second = await signIn(true);
const left = await visit(
  client.buildEndSessionUrl(config, {
    id_token_hint: first,
    post_logout_redirect_uri: webApp.postLogoutRedirectUri,
    state: "a state",
  }),
);

tell({
  email: claims(second).email,
  sameSession: claims(first).sid === claims(second).sid,
  left: left.toString(),
  silentAfterwards: await error(true),
});
