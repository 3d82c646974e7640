"""The endpoints that OAuth clients call on their own behalf: token, revocation, introspection."""

from msgspec import UNSET, UnsetType

from portico.core.oauth import (
    ACCESS_TOKEN_KIND,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    DEVICE_CODE_SECONDS,
    EXTRA_GRANTS,
    GRANT_TYPES,
    POLL_SECONDS,
    AuthorizationRefused,
    Client,
    spelled,
    spelled_user_code,
)
from portico.features.access import authorization, device_authorization
from portico.features.access.authorization import Exchange, exchange_code
from portico.features.access.oauth_responder import missing_parameter
from portico.features.access.programs import WantedExchange, exchange_token, own_token
from portico.features.access.schemas import (
    DeviceAuthorization,
    DeviceForm,
    EndedSession,
    IssuedTokens,
    OneTokenForm,
    TokenFacts,
    TokenForm,
)
from portico.features.access.tokens import Issued, refresh
from portico.web.cors import Sharing
from portico.web.messages import BodyRequest, Reply, json_reply
from portico.web.routing import Access, FormRoute


async def token(request: BodyRequest[TokenForm]) -> Reply:
    """POST /token (RFC 6749 §4.1.3 and §6)."""
    if request.body.grant_type == "authorization_code":
        return await _exchange(request)
    if request.body.grant_type == "refresh_token":
        return await _refresh(request)
    extra = {grant: name for name, grant in EXTRA_GRANTS.items()}.get(request.body.grant_type)
    if extra is None:
        raise AuthorizationRefused(
            "unsupported_grant_type", f"grant_type must be {' or '.join(GRANT_TYPES)}."
        )
    _permitted(request.client, extra)
    if request.body.grant_type == DEVICE_CODE:
        form, code = request.body, _required("device_code", request.body.device_code)
        resource = form.resource or None
        return _tokens(
            await device_authorization.redeem(
                request.environment, request.client, code, resource, request.by
            )
        )
    if request.body.grant_type == CLIENT_CREDENTIALS:
        form, client = request.body, request.client
        scope, resource = form.scope or None, form.resource or None
        return _tokens(await own_token(request.environment, client, scope, resource, request.by))
    return await _exchange_token(request)


def _permitted(client: Client, grant: str) -> None:
    if grant not in client.grants:
        raise AuthorizationRefused(
            "unauthorized_client", f"This client is not registered for --grant {grant}."
        )


async def authorize_device(request: BodyRequest[DeviceForm]) -> Reply:
    """POST /device_authorization (RFC 8628 §3.1)."""
    env, form = request.environment, request.body
    _permitted(request.client, "device_code")
    scope, resource = form.scope or None, form.resource or None
    offered = await device_authorization.offer(env, request.client, scope, resource, request.by)
    page, user_code = f"{env.addresses.auth}/device", spelled_user_code(offered.user_code)
    answer = DeviceAuthorization(
        device_code=offered.device_code,
        user_code=user_code,
        verification_uri=page,
        verification_uri_complete=f"{page}?user_code={user_code}",
        expires_in=DEVICE_CODE_SECONDS,
        interval=POLL_SECONDS,
    )
    return json_reply(200, answer)


async def _exchange_token(request: BodyRequest[TokenForm]) -> Reply:
    form = request.body
    subject = _required("subject_token", form.subject_token)
    kinds = {form.subject_token_type, form.requested_token_type or ACCESS_TOKEN_KIND}
    if kinds != {ACCESS_TOKEN_KIND} or form.actor_token:
        raise AuthorizationRefused(
            "invalid_request", f"Exchange one {ACCESS_TOKEN_KIND} for another, without an actor."
        )
    if form.resource and form.audience and form.resource != form.audience:
        raise AuthorizationRefused("invalid_target", "Only one resource can be asked for.")
    wanted = WantedExchange(subject, form.resource or form.audience or None, form.scope or None)
    issued = await exchange_token(request.environment, request.client, wanted, request.by)
    return _tokens(issued, ACCESS_TOKEN_KIND)


async def _exchange(request: BodyRequest[TokenForm]) -> Reply:
    form = request.body
    exchange = Exchange(
        _required("code", form.code),
        _required("redirect_uri", form.redirect_uri),
        form.code_verifier or None,
        form.resource or None,
    )
    return _tokens(await exchange_code(request.environment, request.client, exchange, request.by))


async def _refresh(request: BodyRequest[TokenForm]) -> Reply:
    form = request.body
    issued = await refresh(
        request.environment,
        request.client,
        _required("refresh_token", form.refresh_token),
        request.by,
        asked=form.scope or None,
        resource=form.resource or None,
    )
    return _tokens(issued)


async def revoke(request: BodyRequest[OneTokenForm]) -> Reply:
    """POST /revoke (RFC 7009)."""
    asked = request.body.token
    await authorization.revoke_token(request.environment, request.client, asked, request.by)
    return json_reply(200, EndedSession())


async def introspect(request: BodyRequest[OneTokenForm]) -> Reply:
    """POST /introspect (RFC 7662)."""
    if request.client.public:
        raise AuthorizationRefused("invalid_client", "Introspection is for clients with a secret.")
    asked = request.body.token
    facts = await authorization.introspect(request.environment, request.client, asked)
    return json_reply(200, TokenFacts(**facts))


def _tokens(issued: Issued, kind: str | UnsetType = UNSET) -> Reply:
    pair = issued.pair
    tokens = IssuedTokens(
        pair.access_token,
        "Bearer",
        pair.seconds,
        pair.refresh_token or UNSET,
        spelled(pair.scopes),
        issued.id_token or UNSET,
        kind,
    )
    return json_reply(200, tokens)


def _required(name: str, value: str | UnsetType) -> str:
    if value is UNSET:
        raise missing_parameter(name)
    return value


ROUTES = (
    FormRoute(
        method="POST",
        path="/token",
        handler=token,
        access=Access.CLIENT,
        summary="Exchange a code or a refresh token",
        description="A code is valid for 60 seconds, a refresh token for 30 days, and each for one"
        " use. If one is used a second time, all tokens of the same grant are revoked.",
        form=TokenForm,
        answer=IssuedTokens,
        sharing=Sharing.CLIENTS,
    ),
    FormRoute(
        method="POST",
        path="/device_authorization",
        handler=authorize_device,
        access=Access.CLIENT,
        summary="Begin a device authorization",
        description="For programs without a browser that are registered for it (RFC 8628). Show the"
        " user the address and the code, then ask `POST /token` with the `device_code`.",
        form=DeviceForm,
        answer=DeviceAuthorization,
    ),
    FormRoute(
        method="POST",
        path="/revoke",
        handler=revoke,
        access=Access.CLIENT,
        summary="Revoke a token",
        description="Revoking a refresh token revokes all tokens of the same grant. Unknown tokens"
        " are ignored. Tokens of another client are refused.",
        form=OneTokenForm,
        answer=EndedSession,
        sharing=Sharing.CLIENTS,
    ),
    FormRoute(
        method="POST",
        path="/introspect",
        handler=introspect,
        access=Access.CLIENT,
        summary="Introspect a token",
        description="For confidential clients. A token of another client is reported as inactive,"
        " unless it is meant for the service that this client is registered with.",
        form=OneTokenForm,
        answer=TokenFacts,
    ),
)
