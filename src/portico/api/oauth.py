"""The endpoints that OAuth clients call for themselves: token, revocation, introspection."""

from collections.abc import Mapping

from msgspec import UNSET

from portico.contract.oauth import Ended, IssuedTokens, OneTokenForm, TokenFacts, TokenForm
from portico.domain.oauth import ACCESS_SECONDS, Refused, spelled
from portico.http.messages import Reply, Request, json_reply
from portico.http.routing import Access, Route
from portico.services import authorization
from portico.services.authorization import Exchange, exchange_code
from portico.services.tokens import Pair, refresh


async def token(request: Request) -> Reply:
    """POST /token (RFC 6749 §4.1.3 and §6)."""
    parameters: Mapping[str, str] = request.body
    grant_type = _required(parameters, "grant_type")
    if grant_type == "authorization_code":
        return await _exchange(request, parameters)
    if grant_type == "refresh_token":
        return await _refresh(request, parameters)
    raise Refused(
        "unsupported_grant_type", "grant_type must be authorization_code or refresh_token."
    )


async def _exchange(request: Request, parameters: Mapping[str, str]) -> Reply:
    exchange = Exchange(
        _required(parameters, "code"),
        _required(parameters, "redirect_uri"),
        parameters.get("code_verifier"),
    )
    bought = await exchange_code(request.environment, request.client, exchange, request.by)
    return _tokens(bought.pair, bought.id_token)


async def _refresh(request: Request, parameters: Mapping[str, str]) -> Reply:
    pair = await refresh(
        request.environment,
        request.client,
        _required(parameters, "refresh_token"),
        parameters.get("scope"),
        request.by,
    )
    return _tokens(pair)


async def revoke(request: Request) -> Reply:
    """POST /revoke (RFC 7009)."""
    asked = _required(request.body, "token")
    await authorization.revoke_token(request.environment, request.client, asked, request.by)
    return json_reply(200, Ended())


async def introspect(request: Request) -> Reply:
    """POST /introspect (RFC 7662)."""
    if request.client.public:
        raise Refused("invalid_client", "Introspection is for clients with a secret.")
    asked = _required(request.body, "token")
    facts = await authorization.introspect(request.environment, request.client, asked)
    return json_reply(200, TokenFacts(**facts))


def _tokens(pair: Pair, id_token: str | None = None) -> Reply:
    tokens = IssuedTokens(
        pair.access_token,
        "Bearer",
        ACCESS_SECONDS,
        pair.refresh_token,
        spelled(pair.scopes),
        id_token or UNSET,
    )
    return json_reply(200, tokens)


def _required(parameters: Mapping[str, str], name: str) -> str:
    value = parameters.get(name)
    if value is None:
        raise Refused("invalid_request", f"Send {name}.")
    return value


ROUTES = (
    Route(
        method="POST",
        path="/token",
        handler=token,
        access=Access.CLIENT,
        summary="Exchange a code or a refresh token",
        description="A code holds 60 seconds and is good for one use, a refresh token holds 30 days"
        " and is good for one use. What comes a second time ends all that it bought.",
        form=TokenForm,
        answer=IssuedTokens,
    ),
    Route(
        method="POST",
        path="/revoke",
        handler=revoke,
        access=Access.CLIENT,
        summary="End a token",
        description="A refresh token ends with all tokens that came of the same consent. What is"
        " unknown is left as it is.",
        form=OneTokenForm,
        answer=Ended,
    ),
    Route(
        method="POST",
        path="/introspect",
        handler=introspect,
        access=Access.CLIENT,
        summary="Read what is to be known of a token",
        description="For confidential clients, of their own tokens.",
        form=OneTokenForm,
        answer=TokenFacts,
    ),
)
