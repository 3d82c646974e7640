"""Tells whether somebody signed in for the authorization request that they decide on.

A request may want that (`prompt=login`, `max_age`). While its user signs in, its address carries
when it was asked, under a code of the server's, so that nobody moves that time or takes it to
another request: a sign-in from then on is one for this very request.
"""

from collections.abc import Sequence
from hmac import compare_digest
from urllib.parse import urlencode

from portico.domain.base64url import base64url
from portico.domain.proofs import level
from portico.domain.sessions import Session
from portico.domain.times import SECOND
from portico.services.authorization_requests import AuthorizationRequest
from portico.services.environment import Environment

PARAMETER = "asked_at"
SECONDS = 1_800
"""How long a user may take to sign in and to decide, before they must sign in again."""

Parameters = Sequence[tuple[str, str]]


def wants_fresh_sign_in(asked: AuthorizationRequest) -> bool:
    """Whether a sign-in of any time will not do."""
    return asked.sign_in_again or asked.max_age is not None


def stamped(env: Environment, parameters: Parameters, now: int) -> str:
    """The query of a request that is asked now."""
    query = urlencode(_unstamped(parameters))
    return f"{query}&{PARAMETER}={now}.{_code(env, query, now)}"


async def signed_in_for(
    env: Environment, asked: AuthorizationRequest, parameters: Parameters, session: Session
) -> bool:
    """Whether a sign-in is as fresh, and as strong, as the request wants it; `parameters` are the
    request as it came. What is weak will do for whoever has no second factor to sign in by."""
    if not _fresh(env, asked, parameters, session.created_at):
        return False
    if asked.level is None or asked.level <= level(session.amr):
        return True
    return not await env.factors.of_user(session.user_id)


def _fresh(
    env: Environment, asked: AuthorizationRequest, parameters: Parameters, signed_in_at: int
) -> bool:
    now = env.clock()
    recent = asked.max_age is None or 0 <= now - signed_in_at <= asked.max_age * SECOND
    if recent and not asked.sign_in_again:
        return True
    asked_at = _asked_at(env, parameters)
    if asked_at is None:
        return False
    return asked_at <= signed_in_at and 0 <= now - asked_at < SECONDS * SECOND


def _asked_at(env: Environment, parameters: Parameters) -> int | None:
    """When a request was asked that carries its time under our code."""
    time, _, code = dict(parameters).get(PARAMETER, "").partition(".")
    if not (time.isascii() and time.isdigit() and len(time) < 16):
        return None
    expected = _code(env, urlencode(_unstamped(parameters)), int(time))
    return int(time) if compare_digest(code.encode(), expected.encode()) else None


def _unstamped(parameters: Parameters) -> list[tuple[str, str]]:
    return [(name, value) for name, value in parameters if name != PARAMETER]


def _code(env: Environment, query: str, now: int) -> str:
    code = env.vault.authenticate(f"{env.name} {now} {query}".encode())
    return base64url(code)
