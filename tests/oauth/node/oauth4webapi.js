import * as oauth from "oauth4webapi";

import { api, issuer, nativeApp, refusal, scope, tell, visit, webApp } from "./conversation.js";

const discover = async (algorithm) => {
  const response = await oauth.discoveryRequest(new URL(issuer), { algorithm });
  return oauth.processDiscoveryResponse(new URL(issuer), response);
};
const as = await discover("oidc");
const inserted = await discover("oauth2");

async function signIn(app, decision) {
  const verifier = oauth.generateRandomCodeVerifier();
  const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()];
  const url = new URL(as.authorization_endpoint);
  url.search = new URLSearchParams({
    client_id: app.clientId,
    redirect_uri: app.redirectUri,
    response_type: "code",
    scope,
    state,
    nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
  });
  const callback = await visit(url, decision);
  return { callback, state, nonce, verifier };
}

/** Checks `state` and `iss`, exchanges the code, and checks the ID token. */
async function exchange(app, authentication, { callback, state, nonce, verifier }) {
  const client = { client_id: app.clientId };
  const parameters = oauth.validateAuthResponse(as, client, callback, state);
  const response = await oauth.authorizationCodeGrantRequest(
    ...[as, client, authentication, parameters, app.redirectUri, verifier],
  );
  return oauth.processAuthorizationCodeResponse(as, client, response, {
    expectedNonce: nonce,
    requireIdToken: true,
  });
}

const status = async (token) => {
  const url = new URL(`${api}/products`);
  return (await oauth.protectedResourceRequest(token, "GET", url)).status;
};

async function use(app, authentication) {
  const client = { client_id: app.clientId };
  const tokens = await exchange(app, authentication, await signIn(app));
  const { sub } = oauth.getValidatedIdTokenClaims(tokens);
  const asked = await oauth.userInfoRequest(as, client, tokens.access_token);
  const userinfo = await oauth.processUserInfoResponse(as, client, sub, asked);
  const refresh = async (token) =>
    oauth.processRefreshTokenResponse(
      as,
      client,
      await oauth.refreshTokenGrantRequest(as, client, authentication, token),
    );
  const renewed = await refresh(tokens.refresh_token);
  const found = {
    scope: tokens.scope,
    sub,
    email: userinfo.email,
    rotated: renewed.refresh_token !== tokens.refresh_token,
    products: await status(renewed.access_token),
  };
  const replayed = await refusal(refresh(tokens.refresh_token));
  return {
    ...found,
    replayed: replayed.error,
    ended: (await refusal(status(renewed.access_token))).status,
  };
}

async function endTokens(app, authentication) {
  const client = { client_id: app.clientId };
  const begun = await signIn(app);
  const tokens = await exchange(app, authentication, begun);
  const introspect = async () =>
    oauth.processIntrospectionResponse(
      as,
      client,
      await oauth.introspectionRequest(as, client, authentication, tokens.access_token),
    );
  const before = await introspect();
  await oauth.processRevocationResponse(
    await oauth.revocationRequest(as, client, authentication, tokens.refresh_token),
  );
  const after = await introspect();
  const code = await refusal(exchange(app, authentication, begun));
  return { before: before.active, username: before.username, after: after.active, code: code.error };
}

const basic = oauth.ClientSecretBasic(webApp.clientSecret);
const post = oauth.ClientSecretPost(webApp.clientSecret);
const wrong = oauth.ClientSecretPost(`${webApp.clientSecret}x`);
const foreign = await signIn(webApp);
foreign.callback.searchParams.set("iss", "https://elsewhere.example");

tell({
  sameMetadata: JSON.stringify(as) === JSON.stringify(inserted),
  basic: await use(webApp, basic),
  post: await use(webApp, post),
  none: await use(nativeApp, oauth.None()),
  ...(await endTokens(webApp, basic)),
  denied: (await refusal(exchange(webApp, basic, await signIn(webApp, "deny")))).error,
  wrongSecret: (await refusal(exchange(webApp, wrong, await signIn(webApp)))).code,
  foreignIssuer: (await refusal(exchange(webApp, basic, foreign))).code,
});
