"""Tells whether somebody signed in for the authorization request that they decide on.

A request may want that (`prompt=login`, `max_age`). While its user signs in, its address carries
when it was asked and the latest session by then, encrypted, so that nobody reads or moves them, or
takes them to another request: a later sign-in is one for this very request.
"""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from portico.domain.base64url import base64url, from_base64url
from portico.domain.proofs import level
from portico.domain.sessions import Session
from portico.domain.times import AHEAD, SECOND
from portico.services.authorization_requests import AuthorizationRequest
from portico.services.environment import Environment

PARAMETER = "asked_at"
SECONDS = 1_800
"""How long a user may take to sign in and to decide, before they must sign in again."""

Parameters = Sequence[tuple[str, str]]


class _Stamp(NamedTuple):
    """When a request was asked, and the latest session that anybody had by then."""

    at: int
    latest_id: int


def wants_fresh_sign_in(asked: AuthorizationRequest) -> bool:
    """Whether a sign-in of any time will not do."""
    return asked.sign_in_again or asked.max_age is not None


async def stamped(env: Environment, parameters: Parameters, now: int) -> str:
    """The query of a request that is asked now."""
    query = _unstamped(parameters)
    stamp = f"{now} {await env.sessions.latest_id()}"
    veiled = env.vault.veil(stamp.encode(), _name(env, query))
    return f"{query}&{PARAMETER}={base64url(veiled)}"


async def signed_in_for(
    env: Environment, asked: AuthorizationRequest, parameters: Parameters, session: Session
) -> bool:
    """Whether a sign-in is whose, as fresh and as strong as the request wants it; `parameters` are
    the request as it came. What is weak will do for whoever has no second factor to sign in by."""
    if asked.user_id not in (None, session.user_id):
        return False
    if not _fresh(env, asked, parameters, session):
        return False
    if asked.level is None or asked.level <= level(session.amr):
        return True
    return not await env.factors.of_user(session.user_id)


def _fresh(
    env: Environment, asked: AuthorizationRequest, parameters: Parameters, session: Session
) -> bool:
    now, signed_in_at = env.clock(), session.created_at
    recent = asked.max_age is None or -AHEAD <= now - signed_in_at <= asked.max_age * SECOND
    if recent and not asked.sign_in_again:
        return True
    stamp = _stamp(env, parameters)
    if stamp is None or not -AHEAD <= now - stamp.at < SECONDS * SECOND:
        return False
    # By their numbers, for clocks of several hosts differ: no session of before is fresh, whoever
    # had it and whoever asked.
    return session.id > stamp.latest_id


def _stamp(env: Environment, parameters: Parameters) -> _Stamp | None:
    """What a request carries of ours."""
    try:
        veiled = from_base64url(dict(parameters).get(PARAMETER, ""))
    except ValueError:
        return None
    stamp = env.vault.unveil(veiled, _name(env, _unstamped(parameters)))
    return _Stamp(*map(int, stamp.split())) if stamp else None


def _unstamped(parameters: Parameters) -> str:
    return urlencode([(name, value) for name, value in parameters if name != PARAMETER])


def _name(env: Environment, query: str) -> str:
    return f"{env.name} asked {query}"
