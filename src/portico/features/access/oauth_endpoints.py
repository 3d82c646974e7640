"""The endpoints that OAuth clients call on their own behalf: token, revocation, introspection."""

from msgspec import UNSET, UnsetType

from portico.core.oauth import (
    ACCESS_TOKEN_KIND,
    CLIENT_CREDENTIALS,
    EXTRA_GRANTS,
    GRANT_TYPES,
    AuthorizationRefused,
    spelled,
)
from portico.features.access import authorization
from portico.features.access.authorization import Exchange, exchange_code
from portico.features.access.oauth_responder import missing_parameter
from portico.features.access.programs import WantedExchange, exchange_token, own_token
from portico.features.access.schemas import (
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
    if extra not in request.client.grants:
        raise AuthorizationRefused(
            "unauthorized_client", f"This client is not registered for --grant {extra}."
        )
    if request.body.grant_type == CLIENT_CREDENTIALS:
        form, client = request.body, request.client
        scope, resource = form.scope or None, form.resource or None
        return _tokens(await own_token(request.environment, client, scope, resource, request.by))
    return await _exchange_token(request)


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
