"""Checks whether a user has signed in for the authorization request that they decide on.

A request may require that (`prompt=login`, `max_age`). While the user signs in, the address carries
a stamp: the time of the request and the id of the latest session at that time. It is encrypted and
bound to the request, so that nobody can read, change or reuse it. Sessions with a higher id began
after the request.
"""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from portico.domain.base64url import base64url, from_base64url
from portico.domain.proofs import level
from portico.domain.sessions import Session
from portico.domain.times import SECOND
from portico.services.authorization_requests import AuthorizationRequest
from portico.services.environment import Environment
from portico.services.vault import Vault
from portico.storage.factors import FactorStore
from portico.storage.sessions import Sessions

PARAMETER = "asked_at"
SECONDS = 1_800
"""How many seconds a user may take to sign in and decide before they must sign in again."""

Parameters = Sequence[tuple[str, str]]


class _Stamp(NamedTuple):
    """The time of a request (epoch milliseconds), and the id of the latest session at that time."""

    at: int
    latest_id: int


def wants_fresh_sign_in(asked: AuthorizationRequest) -> bool:
    """Whether the request restricts when the user signed in."""
    return asked.sign_in_again or asked.max_age is not None


async def stamped(env: Environment, parameters: Parameters, now: int) -> str:
    """The query of a request that is made now, with its stamp."""
    query = _unstamped(parameters)
    stamp = f"{now} {await env[Sessions].latest_id()}"
    veiled = env[Vault].veil(stamp.encode(), _name(env, query))
    return f"{query}&{PARAMETER}={base64url(veiled)}"


async def signed_in_for(
    env: Environment, asked: AuthorizationRequest, parameters: Parameters, session: Session
) -> bool:
    """Whether a session belongs to the user whom the request names, if any, and is as fresh and as
    strong as the request wants; `parameters` are those of the request. A weaker sign-in is accepted
    from users who have no second factor."""
    if asked.user_id not in (None, session.user_id):
        return False
    if not _fresh(env, asked, parameters, session):
        return False
    if asked.level is None or asked.level <= level(session.amr):
        return True
    return not await env[FactorStore].of_user(session.user_id)


def _fresh(
    env: Environment, asked: AuthorizationRequest, parameters: Parameters, session: Session
) -> bool:
    now, signed_in_at = env.clock(), session.created_at
    recent = asked.max_age is None or now - signed_in_at <= asked.max_age * SECOND
    if recent and not asked.sign_in_again:
        return True
    stamp = _stamp(env, parameters)
    if stamp is None or now - stamp.at >= SECONDS * SECOND:
        return False
    # Ids are compared, not times, because the clocks of hosts differ.
    return session.id > stamp.latest_id


def _stamp(env: Environment, parameters: Parameters) -> _Stamp | None:
    """The stamp that a request carries, if it is valid."""
    try:
        veiled = from_base64url(dict(parameters).get(PARAMETER, ""))
    except ValueError:
        return None
    stamp = env[Vault].unveil(veiled, _name(env, _unstamped(parameters)))
    return _Stamp(*map(int, stamp.split())) if stamp else None


def _unstamped(parameters: Parameters) -> str:
    return urlencode([(name, value) for name, value in parameters if name != PARAMETER])


def _name(env: Environment, query: str) -> str:
    return f"{env.name} asked {query}"
