"""The endpoints that OAuth clients call on their own behalf: token, revocation, introspection."""

from msgspec import UNSET, UnsetType

from portico.core.oauth import GRANT_TYPES, AuthorizationRefused, spelled
from portico.features.access import authorization
from portico.features.access.authorization import Exchange, exchange_code
from portico.features.access.oauth_responder import missing_parameter
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
    raise AuthorizationRefused(
        "unsupported_grant_type", f"grant_type must be {' or '.join(GRANT_TYPES)}."
    )


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


def _tokens(issued: Issued) -> Reply:
    pair = issued.pair
    tokens = IssuedTokens(
        pair.access_token,
        "Bearer",
        pair.seconds,
        pair.refresh_token,
        spelled(pair.scopes),
        issued.id_token or UNSET,
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
        description="For confidential clients. A token of another client is reported as inactive.",
        form=OneTokenForm,
        answer=TokenFacts,
    ),
)
