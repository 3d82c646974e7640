"""What an OAuth token is for (RFC 8707): the API, a service of the team, or the tools of agents.

A token is good there alone. In storage and for callers, None is the API.
"""

from portico.core.oauth import OPENID_SCOPES, AuthorizationRefused
from portico.core.services import Service
from portico.environment import Environment


def agents_address(base: str) -> str:
    """The address of the tools of agents (MCP), beside the API at `base`."""
    return f"{base}/mcp"


def target(env: Environment, asked: str | None, scopes: frozenset[str]) -> str | None:
    """What a token is for: what the client asked for as `resource`, or else the one service that
    all these scopes of the API belong to. Raises `AuthorizationRefused` (`invalid_target`)."""
    base, services = env.addresses.base, env.settings.declared.services.values()
    if asked is None:
        own = scopes.difference(OPENID_SCOPES)
        only = (one for one in services if own and own <= one.scopes.keys())
        return next((one.audience_at(base) for one in only), None)
    if asked == base:
        return None
    if asked == agents_address(base):
        return asked
    for service in services:
        if asked == service.audience_at(base) or (service.path and asked == base + service.path):
            return service.audience_at(base)
    raise AuthorizationRefused(
        "invalid_target", f"resource must be {base}, one of its services, or omitted."
    )


def check_same(env: Environment, asked: str | None, bound: str | None) -> None:
    """Sees that a client asks for what its grant is bound to, if it asks for anything. Raises
    `AuthorizationRefused` (`invalid_target`)."""
    if asked is not None and target(env, asked, frozenset()) != bound:
        raise AuthorizationRefused(
            "invalid_target", "resource must be the one that was granted, or omitted."
        )


def service_of(env: Environment, resource: str | None) -> Service | None:
    """The service with this audience, if any."""
    for service in env.settings.declared.services.values():
        if resource == service.audience_at(env.addresses.base):
            return service
    return None
