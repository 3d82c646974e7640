"""Checking passwords and codes that somebody may be guessing.

Failures are counted by account and by address, and slow down whoever makes more of them. An address
that has signed in to the account is counted apart, and what is right is let in from there when the
address has no failures left, so that strangers who guess elsewhere keep no owner out there. What is
right counts nowhere. An e-mail without an account is treated alike.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from portico.domain.errors import RateLimited, Unavailable
from portico.domain.guard import ACCOUNT, ACQUAINTANCE, ADDRESS
from portico.domain.text import counted
from portico.services.allowances import name_of
from portico.services.environment import Environment
from portico.state.callers import (
    GUARDED_ACCOUNT,
    GUARDED_ACQUAINTANCE,
    GUARDED_ADDRESS,
)
from portico.state.protocol import Guards

T = TypeVar("T")

Note = Callable[[], Awaitable[None]]

LOOKS = 400
SECONDS_BETWEEN_LOOKS = 0.025
"""How often, and how long apart, an attempt looks for a place before it gives up: 10 seconds."""


class Claim(NamedTuple):
    """Whose password somebody claims to know, and from where. `user_id` is 0 where there is no such
    account."""

    email: str
    user_id: int
    address: str


class _Place(NamedTuple):
    """What an attempt that may be made holds places of, and since when (epoch milliseconds).
    `wait` is how long (milliseconds) its address has no failure left, where it is let in all the
    same."""

    guards: Guards
    since: int
    wait: int


async def password_is_right(
    env: Environment, claim: Claim, password: str, password_hash: str, note: Note
) -> bool:
    """Whether the password has this hash. Raises as `guarded` does, and `Unavailable` where too
    many wait to be hashed."""

    async def verify() -> bool:
        return await env.passwords.verify(password, password_hash)

    return await guarded(env, claim, verify, note)


async def guarded(
    env: Environment, claim: Claim, check: Callable[[], Awaitable[T]], note: Note
) -> T:
    """What `check` finds; where that is nothing, it is a failure of the claim, which `note` writes.

    A place is held before anything is checked, so that guesses at once are no more than one by one.
    Raises `RateLimited` where the next guess has to wait, or where this one would have had to,
    had it come from an address that the account does not know.
    """
    guards, since, wait = await _enter(env, claim)
    has_failed = False
    try:
        found = await check()
        has_failed = not found
    finally:
        await env.limiter.leave(guards, env.clock(), entered_ms=since, has_failed=has_failed)
    if has_failed:
        await note()
        if wait:
            raise _too_many(wait)
    return found


async def forgive(env: Environment, email: str, address: str) -> None:
    """Forgets an account's failures from unknown addresses and from this one: for whoever has shown
    in another way that the account is theirs."""
    account = name_of(env, email)
    await env.limiter.forget(
        [(GUARDED_ACCOUNT, account), (GUARDED_ACQUAINTANCE, f"{account}:{address}")]
    )


async def _enter(env: Environment, claim: Claim) -> _Place:
    """Waits for a place while those under way may yet turn out to be right."""
    account, address = name_of(env, claim.email), claim.address
    is_known = await env.sessions.knows_address(claim.user_id, address)
    own: Guards = (
        [((GUARDED_ACQUAINTANCE, f"{account}:{address}"), ACQUAINTANCE)]
        if is_known
        else [((GUARDED_ACCOUNT, account), ACCOUNT)]
    )
    # The address first: its wait is told, which is the same for whoever knows the account or not.
    guards: Guards = [((GUARDED_ADDRESS, address), ADDRESS), *own]
    for _ in range(LOOKS):
        now = env.clock()
        entry = await env.limiter.enter(guards, now)
        if entry.admitted:
            return _Place(guards, now, 0)
        wait = entry.wait
        if wait and is_known:  # perhaps it is the address alone that has to
            entry = await env.limiter.enter(own, now)
            if entry.admitted:
                return _Place(own, now, wait)
        if entry.wait:
            raise _too_many(wait)
        # Whoever holds the places may be in another process, so nobody here can be told by them.
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    raise Unavailable("Too many passwords of this account are being checked.", retry_after=2)


def _too_many(wait: int) -> RateLimited:
    seconds = -(-wait // 1000)
    return RateLimited(
        f"Too many failed attempts; try again in {counted(seconds, 'second')}.", retry_after=seconds
    )
