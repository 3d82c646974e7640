import { Auth } from "@auth/core";
import { getToken } from "@auth/core/jwt";

import { issuer, scope, site, tell, visit } from "./conversation.js";

const secret = "what the application encrypts its sessions with";
const config = {
  basePath: "/auth",
  secret,
  trustHost: true,
  providers: [
    {
      id: "portico",
      name: "Portico",
      type: "oidc",
      issuer,
      clientId: site.clientId,
      clientSecret: site.clientSecret,
      authorization: { params: { scope } },
      checks: ["pkce", "state"],
    },
  ],
  callbacks: {
    jwt: ({ token, account }) => (account ? { ...token, idToken: account.id_token } : token),
    redirect: ({ url, baseUrl }) => (url.startsWith(`${issuer}/`) ? url : baseUrl),
  },
};
const cookies = new Map();

const headers = () => ({ cookie: [...cookies].map((cookie) => cookie.join("=")).join("; ") });

/** What the application answers to the browser. */
async function ask(url, options) {
  const request = new Request(new URL(url, site.redirectUri), { headers: headers(), ...options });
  const response = await Auth(request, config);
  for (const cookie of response.headers.getSetCookie()) {
    const [, name, value] = cookie.match(/^(.*?)=(.*?);/);
    cookies.set(name, value);
  }
  return response;
}

/** Where a form of the application leads. */
async function send(path, values) {
  const { csrfToken } = await (await ask("/auth/csrf")).json();
  const body = new URLSearchParams({ csrfToken, ...values });
  return (await ask(path, { method: "POST", body })).headers.get("location");
}

const callback = async (query = "") => visit(await send(`/auth/signin/portico${query}`));

/** Whom the application knows then, by which ID token. */
async function signIn(query) {
  await ask(await callback(query));
  const { user } = await (await ask("/auth/session")).json();
  const { idToken } = await getToken({ req: { headers: headers() }, secret, secureCookie: true });
  return { email: user.email, idToken };
}

/** Out of the application, and then out of Portico. */
async function signOut(idToken) {
  const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
  const url = new URL(metadata.end_session_endpoint);
  url.search = new URLSearchParams({
    id_token_hint: idToken,
    post_logout_redirect_uri: site.postLogoutRedirectUri,
    state: "a state",
  });
  return visit(await send("/auth/signout", { callbackUrl: url }));
}

const session = ({ idToken }) =>
  JSON.parse(Buffer.from(idToken.split(".")[1], "base64url")).sid;

const first = await signIn();
const second = await signIn("?prompt=none");
const left = await signOut(second.idToken);

tell({
  email: second.email,
  sameSession: session(first) === session(second),
  left: left.toString(),
  silentAfterwards: (await callback("?prompt=none")).searchParams.get("error"),
});
