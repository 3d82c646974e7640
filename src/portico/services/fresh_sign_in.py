"""Tells whether somebody signed in for the authorization request that they decide on.

A request may want that (`prompt=login`, `max_age`). While its user signs in, its address carries
when and of which session it was asked, under a code of the server's, so that nobody moves that time
or takes it to another request: another sign-in from then on is one for this very request.
"""

import re
from collections.abc import Sequence
from hmac import compare_digest
from typing import NamedTuple
from urllib.parse import urlencode

from portico.domain.base64url import base64url
from portico.domain.proofs import level
from portico.domain.sessions import Session
from portico.domain.times import AHEAD, SECOND
from portico.services.authorization_requests import AuthorizationRequest
from portico.services.environment import Environment

PARAMETER = "asked_at"
SECONDS = 1_800
"""How long a user may take to sign in and to decide, before they must sign in again."""

_NUMBER = re.compile(r"[0-9]{1,19}")

Parameters = Sequence[tuple[str, str]]


class _Stamp(NamedTuple):
    """When a request was asked, and the session that there was; 0: none."""

    at: int
    session_id: int


def wants_fresh_sign_in(asked: AuthorizationRequest) -> bool:
    """Whether a sign-in of any time will not do."""
    return asked.sign_in_again or asked.max_age is not None


def stamped(env: Environment, parameters: Parameters, now: int, session_id: int) -> str:
    """The query of a request that is asked now, of this session; 0: of nobody."""
    query = urlencode(_unstamped(parameters))
    code = _code(env, query, _Stamp(now, session_id))
    return f"{query}&{PARAMETER}={now}.{session_id}.{code}"


async def signed_in_for(
    env: Environment, asked: AuthorizationRequest, parameters: Parameters, session: Session
) -> bool:
    """Whether a sign-in is as fresh, and as strong, as the request wants it; `parameters` are the
    request as it came. What is weak will do for whoever has no second factor to sign in by."""
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
    if stamp is None or stamp.session_id == session.id:
        return False
    # The session that was there does not count; where none was shown, each of before might be it.
    since = stamp.at - (AHEAD if stamp.session_id else 0)
    return since <= signed_in_at and -AHEAD <= now - stamp.at < SECONDS * SECOND


def _stamp(env: Environment, parameters: Parameters) -> _Stamp | None:
    """What a request carries under our code."""
    time, _, rest = dict(parameters).get(PARAMETER, "").partition(".")
    session_id, _, code = rest.partition(".")
    if not all(_NUMBER.fullmatch(number) for number in (time, session_id)):
        return None
    stamp = _Stamp(int(time), int(session_id))
    expected = _code(env, urlencode(_unstamped(parameters)), stamp)
    return stamp if compare_digest(code.encode(), expected.encode()) else None


def _unstamped(parameters: Parameters) -> list[tuple[str, str]]:
    return [(name, value) for name, value in parameters if name != PARAMETER]


def _code(env: Environment, query: str, stamp: _Stamp) -> str:
    code = env.vault.authenticate(f"{env.name} {stamp.at} {stamp.session_id} {query}".encode())
    return base64url(code)
