"""The endpoints that OAuth clients call on their own behalf: token, revocation, introspection,
registration; and what they must know of a resource (RFC 9728)."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.core.audit import Author
from portico.core.errors import Invalid, PermissionDenied
from portico.core.oauth import (
    ACCESS_TOKEN_KIND,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    DEVICE_CODE_SECONDS,
    EXTRA_GRANTS,
    GRANT_TYPES,
    POLL_SECONDS,
    TOKEN_EXCHANGE,
    AuthorizationRefused,
    Client,
    resource_metadata,
    spelled,
    spelled_user_code,
)
from portico.core.scopes import SCOPES
from portico.core.times import SECOND
from portico.environment import Environment
from portico.features.access import authorization, device_authorization
from portico.features.access.authorization import exchange_code
from portico.features.access.clients import register_client
from portico.features.access.documents import Metadata, public_registration
from portico.features.access.oauth_responder import missing_parameter, refusal
from portico.features.access.programs import exchange_token, own_token
from portico.features.access.schemas import (
    DeviceAuthorization,
    DeviceForm,
    EndedSession,
    IssuedTokens,
    OneTokenForm,
    RegisteredClient,
    TokenFacts,
    TokenForm,
)
from portico.features.access.signing import PUBLISHED_SECONDS
from portico.features.access.tokens import Issued, refresh
from portico.web.cors import Sharing
from portico.web.messages import BodyRequest, Reply, Request, json_reply
from portico.web.routing import PUBLIC_BODY_LIMIT, Access, FormRoute, Route


async def token(request: BodyRequest[TokenForm]) -> Reply:
    """POST /token (RFC 6749 §4.1.3 and §6)."""
    env, client, form = request.environment, request.client, request.body
    if form.grant_type not in _GRANTS:
        raise AuthorizationRefused(
            "unsupported_grant_type", f"grant_type must be {' or '.join(GRANT_TYPES)}."
        )
    for name, grant in EXTRA_GRANTS.items():
        if form.grant_type == grant:
            _permitted(client, name)
    issued = await _GRANTS[form.grant_type](env, client, form, request.by)
    pair = issued.pair
    tokens = IssuedTokens(
        pair.access_token,
        "Bearer",
        pair.seconds,
        pair.refresh_token or UNSET,
        spelled(pair.scopes),
        issued.id_token or UNSET,
        ACCESS_TOKEN_KIND if form.grant_type == TOKEN_EXCHANGE else UNSET,
    )
    return json_reply(200, tokens)


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
    code, minted = await device_authorization.offer(
        env, request.client, scope, resource, request.by
    )
    page, user_code = f"{env.addresses.auth}/device", spelled_user_code(minted)
    answer = DeviceAuthorization(
        device_code=code,
        user_code=user_code,
        verification_uri=page,
        verification_uri_complete=f"{page}?user_code={user_code}",
        expires_in=DEVICE_CODE_SECONDS,
        interval=POLL_SECONDS,
    )
    return json_reply(200, answer)


async def _code(env: Environment, client: Client, form: TokenForm, by: Author) -> Issued:
    return await exchange_code(
        *(env, client, by),
        code=_required("code", form.code),
        redirect_uri=_required("redirect_uri", form.redirect_uri),
        verifier=form.code_verifier or None,
        resource=form.resource or None,
    )


async def _refresh(env: Environment, client: Client, form: TokenForm, by: Author) -> Issued:
    token, asked = _required("refresh_token", form.refresh_token), form.scope or None
    return await refresh(env, client, token, by, asked=asked, resource=form.resource or None)


async def _own(env: Environment, client: Client, form: TokenForm, by: Author) -> Issued:
    return await own_token(env, client, form.scope or None, form.resource or None, by)


async def _device(env: Environment, client: Client, form: TokenForm, by: Author) -> Issued:
    code = _required("device_code", form.device_code)
    return await device_authorization.redeem(env, client, code, form.resource or None, by)


async def _exchanged(env: Environment, client: Client, form: TokenForm, by: Author) -> Issued:
    subject = _required("subject_token", form.subject_token)
    kinds = {form.subject_token_type, form.requested_token_type or ACCESS_TOKEN_KIND}
    if kinds != {ACCESS_TOKEN_KIND} or form.actor_token:
        raise AuthorizationRefused(
            "invalid_request", f"Exchange one {ACCESS_TOKEN_KIND} for another, without an actor."
        )
    if form.resource and form.audience and form.resource != form.audience:
        raise AuthorizationRefused("invalid_target", "Only one resource can be asked for.")
    resource = form.resource or form.audience or None
    return await exchange_token(
        env, client, subject, by, resource=resource, scope=form.scope or None
    )


_GRANTS: Mapping[str, Callable[[Environment, Client, TokenForm, Author], Awaitable[Issued]]] = {
    "authorization_code": _code,
    "refresh_token": _refresh,
    CLIENT_CREDENTIALS: _own,
    DEVICE_CODE: _device,
    TOKEN_EXCHANGE: _exchanged,
}


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


async def register(request: Request) -> Reply:
    """POST /register (RFC 7591): a client without a secret registers itself, where that is on."""
    env = request.environment
    if not env.settings.client_registration:
        raise PermissionDenied(
            "Clients cannot register themselves here: an administrator registers them."
        )
    try:
        metadata = msgspec.json.decode(await request.read_body(PUBLIC_BODY_LIMIT), type=Metadata)
        wanted = public_registration(metadata, "An application")
        client, _ = await register_client(
            env, None, wanted, public=True, by=request.by, origin="dynamic"
        )
    except (ValueError, RecursionError) as error:
        message = f"The metadata cannot be read: {error}."
        return refusal(AuthorizationRefused("invalid_client_metadata", message))
    except Invalid as invalid:
        fault = invalid.details[0]
        is_uri = fault.field == "redirect_uris"
        kind = "invalid_redirect_uri" if is_uri else "invalid_client_metadata"
        return refusal(AuthorizationRefused(kind, f"{fault.field} {fault.message}."))
    registered = RegisteredClient(
        client_id=client.client_id,
        client_id_issued_at=client.created_at // SECOND,
        client_name=client.name,
        redirect_uris=list(client.redirect_uris),
        scope=spelled(client.registered),
        token_endpoint_auth_method="none",  # noqa: S106 - no password
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return json_reply(201, registered)


REGISTRATION = (
    Route(
        method="POST",
        path="/register",
        handler=register,
        access=Access.ANYONE,
        summary="Register a client",
        description="A client without a secret registers itself (RFC 7591). Only where the setting"
        " `client_registration` is on. It is removed after 30 days in which no user allows it"
        " anything.",
        status=201,
        answer=RegisteredClient,
        errors=(PermissionDenied,),
        no_store=True,
        sharing=Sharing.ALL,
    ),
)


class ResourceMetadata(msgspec.Struct, frozen=True):
    """The metadata of a resource."""

    resource: Annotated[str, Meta(examples=["https://localhost:8443/v1"])]
    authorization_servers: list[str]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]


def metadata_route(resource: str, scopes: Collection[str]) -> Route:
    """The route of the metadata of the resource at this address; its mount has no prefix."""
    supported = [scope for scope in SCOPES if scope in scopes]

    async def read_metadata(request: Request) -> Reply:
        issuer = request.environment.addresses.auth
        return json_reply(200, ResourceMetadata(resource, [issuer], supported, ["header"]))

    return Route(
        method="GET",
        path=urlsplit(resource_metadata(resource)).path,
        handler=read_metadata,
        access=Access.ANYONE,
        summary="Read the resource's metadata",
        answer=ResourceMetadata,
        public_seconds=PUBLISHED_SECONDS,
        sharing=Sharing.ALL,
    )
