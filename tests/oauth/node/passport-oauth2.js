import passport from "passport";
import OAuth2Strategy from "passport-oauth2";

import { api, issuer, nativeApp, refusal, scope, tell, visit, webApp } from "./conversation.js";

/** Signs users in by what /userinfo tells of them, as strategies of providers do. */
class PorticoStrategy extends OAuth2Strategy {
  constructor(app) {
    const options = {
      authorizationURL: `${issuer}/authorize`,
      tokenURL: `${issuer}/token`,
      clientID: app.clientId,
      clientSecret: app.clientSecret,
      callbackURL: app.redirectUri,
      scope: scope.split(" "),
      state: true,
      pkce: true,
    };
    super(options, (accessToken, refreshToken, params, profile, done) =>
      done(null, { accessToken, refreshToken, params, profile }),
    );
    this._oauth2.useAuthorizationHeaderforGET(true);
  }

  userProfile(accessToken, done) {
    this._oauth2.get(`${issuer}/userinfo`, accessToken, (error, body) =>
      error ? done(error) : done(null, JSON.parse(body)),
    );
  }

  /** As passport-oauth2-refresh does it. */
  refresh(token) {
    return new Promise((resolve, reject) =>
      this._oauth2.getOAuthAccessToken(
        token,
        { grant_type: "refresh_token" },
        (error, accessToken, refreshToken) =>
          error ? reject(JSON.parse(error.data)) : resolve({ accessToken, refreshToken }),
      ),
    );
  }
}

/** One request to a site that authenticates with this strategy: its user, or its redirect. */
function request(strategy, session, query) {
  return new Promise((resolve, reject) => {
    const response = {
      setHeader: (_, location) => resolve({ location }),
      end: () => {},
    };
    const site = new passport.Passport().use(strategy);
    const answered = (error, user, info) =>
      error ? reject(error) : resolve({ user, message: info.message });
    site.authenticate("oauth2", answered)({ query, session, headers: {} }, response, reject);
  });
}

async function signIn(strategy, decision) {
  const session = {};
  const { location } = await request(strategy, session, {});
  const query = Object.fromEntries((await visit(location, decision)).searchParams);
  return { query, session, answer: () => request(strategy, session, query) };
}

const status = async (token) =>
  (await fetch(`${api}/products`, { headers: { authorization: `Bearer ${token}` } })).status;

async function use(app) {
  const strategy = new PorticoStrategy(app);
  const { user } = await (await signIn(strategy)).answer();
  const renewed = await strategy.refresh(user.refreshToken);
  const found = {
    scope: user.params.scope,
    sub: user.profile.sub,
    email: user.profile.email,
    rotated: renewed.refreshToken !== user.refreshToken,
    products: await status(renewed.accessToken),
  };
  const replayed = await refusal(strategy.refresh(user.refreshToken));
  return { ...found, replayed: replayed.error, ended: await status(renewed.accessToken) };
}

async function replayCode() {
  const strategy = new PorticoStrategy(webApp);
  const { query, session, answer } = await signIn(strategy);
  const kept = structuredClone(session);
  const { user } = await answer();
  const before = await status(user.accessToken);
  const replayed = await refusal(request(strategy, kept, query));
  return { before, code: replayed.code, after: await status(user.accessToken) };
}

const strategy = new PorticoStrategy(webApp);
const wrong = new PorticoStrategy({ ...webApp, clientSecret: `${webApp.clientSecret}x` });
const foreign = await signIn(strategy);
const attempt = await signIn(wrong);
const denied = await (await signIn(strategy, "deny")).answer();

tell({
  post: await use(webApp),
  none: await use(nativeApp),
  ...(await replayCode()),
  denied: denied.user === false && denied.message,
  wrongSecret: (await refusal(attempt.answer())).code,
  foreignState: (await request(strategy, {}, foreign.query)).user,
});
