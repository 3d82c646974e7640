import * as client from "openid-client";

import { api, issuer, nativeApp, refusal, scope, tell, visit, webApp } from "./conversation.js";

const server = new URL(issuer);

async function signIn(config, redirectUri, decision) {
  const verifier = client.randomPKCECodeVerifier();
  const [state, nonce] = [client.randomState(), client.randomNonce()];
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    scope,
    state,
    nonce,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    max_age: "3600",
  });
  const callback = await visit(url, decision);
  const exchange = () =>
    client.authorizationCodeGrant(config, new URL(callback), {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      maxAge: 3600,
      idTokenExpected: true,
    });
  return { callback, exchange };
}

const status = async (config, token) =>
  (await client.fetchProtectedResource(config, token, new URL(`${api}/products`), "GET")).status;

async function use(config, redirectUri) {
  const { exchange } = await signIn(config, redirectUri);
  const tokens = await exchange();
  const { sub } = tokens.claims();
  const userinfo = await client.fetchUserInfo(config, tokens.access_token, sub);
  const renewed = await client.refreshTokenGrant(config, tokens.refresh_token);
  const found = {
    scope: tokens.scope,
    sub,
    email: userinfo.email,
    rotated: renewed.refresh_token !== tokens.refresh_token,
    products: await status(config, renewed.access_token),
  };
  const replayed = await refusal(client.refreshTokenGrant(config, tokens.refresh_token));
  return { ...found, replayed: replayed.error, ended: await refused(config, renewed.access_token) };
}

const refused = async (config, token) => (await refusal(status(config, token))).status;

async function endTokens(config) {
  const { exchange } = await signIn(config, webApp.redirectUri);
  const tokens = await exchange();
  const before = await client.tokenIntrospection(config, tokens.access_token);
  await client.tokenRevocation(config, tokens.refresh_token);
  const after = await client.tokenIntrospection(config, tokens.access_token);
  const code = await refusal(exchange());
  return { before: before.active, username: before.username, after: after.active, code: code.error };
}

const discover = (app, authentication, options) =>
  client.discovery(server, app.clientId, undefined, authentication, options);

const basic = await discover(webApp, client.ClientSecretBasic(webApp.clientSecret));
const post = await discover(webApp, client.ClientSecretPost(webApp.clientSecret), {
  algorithm: "oauth2",
});
const none = await discover(nativeApp, client.None());
const wrong = await discover(webApp, client.ClientSecretBasic(`${webApp.clientSecret}x`));

const attempt = await signIn(wrong, webApp.redirectUri);
const denied = await signIn(basic, webApp.redirectUri, "deny");
const foreign = await signIn(basic, webApp.redirectUri);
foreign.callback.searchParams.set("iss", "https://elsewhere.example");

tell({
  basic: await use(basic, webApp.redirectUri),
  post: await use(post, webApp.redirectUri),
  none: await use(none, nativeApp.redirectUri),
  ...(await endTokens(basic)),
  denied: (await refusal(denied.exchange())).error,
  wrongSecret: (await refusal(attempt.exchange())).code,
  foreignIssuer: (await refusal(foreign.exchange())).code,
});
