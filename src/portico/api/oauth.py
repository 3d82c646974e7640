"""The endpoints that OAuth clients call for themselves: token, revocation, introspection."""

from collections.abc import Mapping

from portico.contract.envelope import encode
from portico.domain.oauth import ACCESS_SECONDS, Refused, spelled
from portico.http.messages import JSON, Reply, Request
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
    bought = await exchange_code(request.environment, request.client, exchange, request.actor)
    return _tokens(bought.pair, bought.id_token)


async def _refresh(request: Request, parameters: Mapping[str, str]) -> Reply:
    pair = await refresh(
        request.environment,
        request.client,
        _required(parameters, "refresh_token"),
        parameters.get("scope"),
        request.actor,
    )
    return _tokens(pair)


async def revoke(request: Request) -> Reply:
    """POST /revoke (RFC 7009)."""
    asked = _required(request.body, "token")
    await authorization.revoke_token(request.environment, request.client, asked, request.actor)
    return Reply(200)


async def introspect(request: Request) -> Reply:
    """POST /introspect (RFC 7662)."""
    if request.client.public:
        raise Refused("invalid_client", "Introspection is for clients with a secret.")
    asked = _required(request.body, "token")
    facts = await authorization.introspect(request.environment, request.client, asked)
    return Reply(200, encode(facts), [("content-type", JSON)])


def _tokens(pair: Pair, id_token: str | None = None) -> Reply:
    body = {
        "access_token": pair.access_token,
        "token_type": "Bearer",
        "expires_in": ACCESS_SECONDS,
        "refresh_token": pair.refresh_token,
        "scope": spelled(pair.scopes),
    }
    if id_token is not None:
        body["id_token"] = id_token
    return Reply(200, encode(body), [("content-type", JSON)])


def _required(parameters: Mapping[str, str], name: str) -> str:
    value = parameters.get(name)
    if value is None:
        raise Refused("invalid_request", f"Send {name}.")
    return value


ROUTES = tuple(
    Route(method="POST", path=path, handler=handler, access=Access.ANYONE, summary=summary)
    for path, handler, summary in (
        ("/token", token, "Exchange a code or a refresh token"),
        ("/revoke", revoke, "End a token"),
        ("/introspect", introspect, "Read what is to be known of a token"),
    )
)
