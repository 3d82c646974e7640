"""The other endpoints of the authorization server: JWT login, the published keys and metadata, and
OpenID Connect's UserInfo."""

from msgspec import UNSET

from portico.core.caller import Principal
from portico.core.errors import AuthenticationRequired, PermissionDenied
from portico.core.oauth import (
    ACCESS_SECONDS,
    CHALLENGE_METHOD,
    GRANT_TYPES,
    OFFLINE_ACCESS,
    OPENID_SCOPES,
    PROMPTS,
    RESPONSE_MODES,
)
from portico.core.plans import over_limit
from portico.core.scopes import SCOPES
from portico.core.sessions import LEVELS
from portico.environment import Environment
from portico.features.access.client_keys import ALGORITHMS
from portico.features.access.signing import ALGORITHM, PUBLISHED_SECONDS, Signer
from portico.features.access.tokens import Pair, log_in, refresh_login
from portico.features.people.users import read_user
from portico.features.signin.schemas import (
    KeySet,
    LoginTokens,
    LogOut,
    PublicKey,
    Refresh,
    ServerMetadata,
    SessionBody,
    SignIn,
    UserInfo,
    session_body,
    user_info,
)
from portico.features.signin.service import Attempt, log_out, prove
from portico.features.signin.sessions import Browser, close_session, open_session
from portico.web.authenticate import bearer
from portico.web.cookies import session_cookie
from portico.web.cors import Sharing
from portico.web.envelope import Created
from portico.web.messages import BodyRequest, Handler, Reply, Request, json_reply
from portico.web.routing import Access, AnyRoute, BodyOrBearerRoute, BodyRoute, Route


async def login(request: BodyRequest[SignIn]) -> Reply:
    body = request.body
    pair = await log_in(
        request.environment,
        Attempt(body.email, body.password, request.by, body.otp or None),
        user_agent=request.header("user-agent") or "",
    )
    return _tokens(pair)


async def refresh(request: BodyRequest[Refresh]) -> Reply:
    token = request.body.refresh_token
    return _tokens(await refresh_login(request.environment, token, request.by))


async def logout(request: BodyRequest[LogOut | None]) -> Reply:
    body = request.body
    ended = await log_out(
        request.environment,
        access_token=bearer(request.headers),
        refresh_token=body.refresh_token if body else None,
        by=request.by,
    )
    verdict = request.verdict
    if not ended and verdict is not None and not verdict.admitted:
        raise over_limit(verdict)
    return Reply(204)


def _tokens(pair: Pair) -> Reply:
    tokens = LoginTokens(pair.access_token, pair.refresh_token, ACCESS_SECONDS, "Bearer")
    return json_reply(200, tokens)


async def read_keys(request: Request) -> Reply:
    keys = await request.environment[Signer].published()
    return json_reply(200, KeySet([PublicKey(**key) for key in keys]))


async def read_user_info(request: Request) -> Reply:
    user = await read_user(request.environment, request.caller.user_id)
    return json_reply(200, user_info(user, request.caller.scopes))


async def post_user_info(request: Request) -> Reply:
    """POST /userinfo: the same, with the token in the header or a form (OpenID Connect Core
    §5.3.1, RFC 6750 §2.2)."""
    return await read_user_info(request)


async def read_openid_metadata(request: Request) -> Reply:
    return json_reply(200, metadata(request.environment))


async def read_oauth_metadata(request: Request) -> Reply:
    """GET /.well-known/oauth-authorization-server: the same, for clients that only know OAuth."""
    return await read_openid_metadata(request)


def metadata(env: Environment) -> ServerMetadata:
    """The metadata of an environment's server (RFC 8414)."""
    auth, settings = env.addresses.auth, env.settings
    methods = ["client_secret_basic", "client_secret_post", "private_key_jwt"]
    algorithms = [*ALGORITHMS]
    return ServerMetadata(
        issuer=auth,
        authorization_endpoint=f"{auth}/authorize",
        token_endpoint=f"{auth}/token",
        userinfo_endpoint=f"{auth}/userinfo",
        jwks_uri=f"{auth}/.well-known/jwks.json",
        revocation_endpoint=f"{auth}/revoke",
        introspection_endpoint=f"{auth}/introspect",
        end_session_endpoint=f"{auth}/end_session",
        device_authorization_endpoint=f"{auth}/device_authorization",
        registration_endpoint=f"{auth}/register" if settings.client_registration else UNSET,
        client_id_metadata_document_supported=settings.client_id_documents,
        scopes_supported=[*OPENID_SCOPES, OFFLINE_ACCESS, *SCOPES],
        response_types_supported=["code"],
        response_modes_supported=[*RESPONSE_MODES],
        grant_types_supported=[*GRANT_TYPES],
        code_challenge_methods_supported=[CHALLENGE_METHOD],
        token_endpoint_auth_methods_supported=[*methods, "none"],
        token_endpoint_auth_signing_alg_values_supported=algorithms,
        revocation_endpoint_auth_methods_supported=[*methods, "none"],
        revocation_endpoint_auth_signing_alg_values_supported=algorithms,
        introspection_endpoint_auth_methods_supported=methods,
        introspection_endpoint_auth_signing_alg_values_supported=algorithms,
        authorization_response_iss_parameter_supported=True,
        backchannel_logout_supported=True,
        backchannel_logout_session_supported=True,
        subject_types_supported=["public"],
        id_token_signing_alg_values_supported=[ALGORITHM],
        acr_values_supported=[*LEVELS],
        claims_supported=[
            *("sub", "iss", "aud", "exp", "iat", "auth_time", "acr", "amr", "nonce", "at_hash"),
            *(
                "sid",
                "name",
                "preferred_username",
                "picture",
                "locale",
                "updated_at",
                "email",
                "email_verified",
            ),
        ],
        prompt_values_supported=[*PROMPTS],
        request_parameter_supported=False,
        request_uri_parameter_supported=False,
        claims_parameter_supported=False,
    )


def _published(path: str, handler: Handler, summary: str, answer: object) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        access=Access.ANYONE,
        summary=summary,
        answer=answer,
        public_seconds=PUBLISHED_SECONDS,
        sharing=Sharing.ALL,
    )


_METADATA = {
    "openid-configuration": read_openid_metadata,
    "oauth-authorization-server": read_oauth_metadata,
}

SIGN_IN_ROUTES: tuple[AnyRoute, ...] = (
    BodyRoute(
        method="POST",
        path="/login",
        handler=login,
        access=Access.ANYONE,
        summary="Sign in for a JSON Web Token",
        description="The access token is valid for an hour, the refresh token for 30 days and one"
        " use.",
        body=SignIn,
        answer=LoginTokens,
        errors=(AuthenticationRequired, PermissionDenied),
        same_origin=True,
        no_store=True,
    ),
    BodyRoute(
        method="POST",
        path="/refresh",
        handler=refresh,
        access=Access.ANYONE,
        summary="Rotate the tokens of a login",
        description="If a refresh token is used a second time, the whole login ends.",
        body=Refresh,
        answer=LoginTokens,
        errors=(AuthenticationRequired,),
        no_store=True,
    ),
    BodyOrBearerRoute(
        method="POST",
        path="/logout",
        handler=logout,
        access=Access.ANYONE,
        summary="End a login",
        description="Send the login's access token as a bearer credential, or its refresh token in"
        " the body. The answer for an unknown or ended login is the same, unless the rate limit is"
        " reached: only a request that ends a login is never refused.",
        status=204,
        body=LogOut,
        errors=(AuthenticationRequired,),
        never_refused=True,
    ),
    _published("/.well-known/jwks.json", read_keys, "Read the public signing keys", KeySet),
    *(
        _published(f"/.well-known/{name}", handler, "Read the server's metadata", ServerMetadata)
        for name, handler in _METADATA.items()
    ),
    *(
        Route(
            method=method,
            path="/userinfo",
            handler=handler,
            access="openid",
            summary="Read who granted the access token",
            answer=UserInfo,
            no_store=True,
            sharing=Sharing.CLIENTS,
            token_in_form=method == "POST",
        )
        for method, handler in (("GET", read_user_info), ("POST", post_user_info))
    ),
)


def inserted(auth_path: str) -> tuple[Route, ...]:
    """The routes of the metadata where RFC 8414 §3.1 puts it: with the well-known part before the
    path of the address. None for an address without a path, since that is the usual place."""
    if not auth_path:
        return ()
    return tuple(
        _published(f"/.well-known/{name}{auth_path}", handler, "Read the server's metadata", dict)
        for name, handler in _METADATA.items()
    )


async def create_session(request: BodyRequest[SignIn]) -> Reply:
    body, env = request.body, request.environment
    cookie = session_cookie(env.addresses.cookie_domain)
    opened = await open_session(
        env,
        await prove(env, Attempt(body.email, body.password, request.by, body.otp or None)),
        request.by,
        Browser(request.header("user-agent") or "", cookie.read(request.headers)),
    )
    return json_reply(
        201,
        Created(session_body(opened.session, opened.user), SessionBody.message),
        cookie.set(opened.secret),
    )


async def delete_session(request: Request) -> Reply:
    await close_session(request.environment, request.by)
    cookie = session_cookie(request.environment.addresses.cookie_domain)
    return Reply(204, b"", [cookie.clear()])


def _permit_session(caller: Principal, _id: int) -> None:
    if caller.credential != "session":
        raise PermissionDenied("This only ends sessions; call it with the session cookie.")


SESSION_ROUTES = (
    BodyRoute(
        method="POST",
        path="/sessions",
        handler=create_session,
        access=Access.ANYONE,
        summary="Sign in with a session cookie",
        description="Sets the cookie. The session lasts 24 hours, but only 30 minutes without a"
        " request. It replaces the session that the request already has, if any.",
        status=201,
        body=SignIn,
        answer=Created[SessionBody],
        errors=(AuthenticationRequired, PermissionDenied),
        same_origin=True,
        no_store=True,
        sets_cookie=True,
    ),
    Route(
        method="DELETE",
        path="/sessions",
        handler=delete_session,
        access=Access.ANY_CALLER,
        permit=_permit_session,
        summary="Sign out",
        description="Ends the session of the cookie, and clears the cookie. Needs the cookie: no"
        " other credential has a session to end.",
        status=204,
        never_refused=True,
        sets_cookie=True,
    ),
)
