import { createHash, randomBytes } from "node:crypto";

import { AuthorizationCode } from "simple-oauth2";

import { api, issuer, nativeApp, refusal, scope, tell, visit, webApp } from "./conversation.js";

const path = new URL(issuer).pathname;

const clientOf = (app, options) =>
  new AuthorizationCode({
    client: { id: app.clientId, secret: app.clientSecret },
    auth: {
      tokenHost: issuer,
      tokenPath: `${path}/token`,
      revokePath: `${path}/revoke`,
      authorizePath: `${path}/authorize`,
    },
    options,
  });

async function signIn(client, app, decision) {
  const state = randomBytes(16).toString("hex");
  const verifier = randomBytes(32).toString("base64url");
  const url = client.authorizeURL({
    redirect_uri: app.redirectUri,
    scope,
    state,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  });
  const told = (await visit(url, decision)).searchParams;
  if (told.get("state") !== state || told.get("iss") !== issuer) {
    throw new Error("this callback is not the answer to that request");
  }
  const parameters = {
    code: told.get("code"),
    redirect_uri: app.redirectUri,
    code_verifier: verifier,
  };
  return { error: told.get("error"), exchange: () => client.getToken(parameters) };
}

const get = async (url, { token }) => {
  const headers = { authorization: `Bearer ${token.access_token}` };
  return fetch(url, { headers });
};
const status = async (access) => (await get(`${api}/products`, access)).status;
const errorOf = async (promise) => (await refusal(promise)).data.payload.error;

async function use(app, options) {
  const client = clientOf(app, options);
  const { exchange } = await signIn(client, app);
  const access = await exchange();
  const userinfo = await (await get(`${issuer}/userinfo`, access)).json();
  const renewed = await access.refresh();
  const found = {
    scope: access.token.scope,
    sub: userinfo.sub,
    email: userinfo.email,
    rotated: renewed.token.refresh_token !== access.token.refresh_token,
    products: await status(renewed),
  };
  return { ...found, replayed: await errorOf(access.refresh()), ended: await status(renewed) };
}

async function endTokens(app, options) {
  const client = clientOf(app, options);
  const { exchange } = await signIn(client, app);
  const access = await exchange();
  const before = await status(access);
  await access.revokeAll();
  return { before, after: await status(access), code: await errorOf(exchange()) };
}

const [form, json] = ["form", "json"].map((bodyFormat) => (authorizationMethod) => ({
  bodyFormat,
  authorizationMethod,
}));
const plain = clientOf(webApp);
const wrong = clientOf({ ...webApp, clientSecret: `${webApp.clientSecret}x` });
const attempt = await signIn(wrong, webApp);

tell({
  basic: await use(webApp, form("header")),
  post: await use(webApp, form("body")),
  jsonBasic: await use(webApp, json("header")),
  jsonPost: await use(webApp, json("body")),
  none: await use(nativeApp, form("body")),
  ...(await endTokens(webApp, json("body"))),
  denied: (await signIn(plain, webApp, "deny")).error,
  wrongSecret: await errorOf(attempt.exchange()),
});
