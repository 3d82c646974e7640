"""Checks passwords and codes that somebody may be guessing.

Failures are counted by account and by address, and further attempts must wait. An address that has
signed in to the account before has a count of its own for this account, so strangers who guess from
elsewhere do not lock the owner out; from there a correct password is accepted even if the address
has no failures left. Correct passwords are not counted. E-mails without an account are treated the
same.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from portico.core.errors import RateLimited, Unavailable
from portico.core.plans import Plan
from portico.core.text import counted
from portico.core.times import HOUR, SECOND
from portico.core.users import email_key
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.people.passwords import Passwords
from portico.features.signin.storage import Sessions
from portico.limits.guard import ACCOUNT, ACQUAINTANCE, ADDRESS
from portico.limits.protocol import (
    GUARDED_ACCOUNT,
    GUARDED_ACQUAINTANCE,
    GUARDED_ADDRESS,
    GUARDED_CODE,
    MAIL,
    Caller,
    Guards,
)

MAILS = Plan("mails that somebody asks for", 3, 3)
SIGN_UPS = Plan("sign-ups from an address", 10, 10)
"""Limited by address, so that nobody can have hundreds of mails sent to strangers."""


def mails_to(user_id: int, purpose: str) -> Caller:
    """The counter of an account's mails of one purpose. Each purpose has its own, so that mails
    which strangers can ask for do not use up those which only the owner can."""
    return MAIL, f"{user_id}:{purpose}"


def name_of(env: Environment, email: str) -> str:
    """The name under which an e-mail, known or not, is counted. It is keyed with the installation's
    secret, so that it reveals nothing of what was typed, which may be a password."""
    text = f"{env.name} counted {email_key(email)}"
    return env[Vault].authenticate(text.encode("utf-8", "replace")).hex()[:32]


async def take_hourly(env: Environment, whose: Caller, plan: Plan, what: str) -> None:
    """Counts one more of `what` in the present hour. Raises `RateLimited` if the plan's limit is
    reached, and `Unavailable`."""
    kind, name = whose
    now = env.clock()
    # The limiter's windows are not hours, so the hour is part of the name.
    verdict = await env.limiter.take((kind, f"{name}:{now // HOUR}"), plan, now)
    if not verdict.admitted:
        seconds = -(-(HOUR - now % HOUR) // SECOND)
        wait = counted(seconds, "second")
        raise RateLimited(f"Too many {what}; try again in {wait}.", retry_after=seconds)


T = TypeVar("T")

Note = Callable[[], Awaitable[None]]

POLLS = 400
SECONDS_BETWEEN_POLLS = 0.025
"""How often, and at which interval, an attempt tries to get a place before it gives up after 10
seconds."""


class Claim(NamedTuple):
    """The account whose password an attempt claims to know, and the address that it comes from.
    `user_id` is 0 if there is no such account."""

    email: str
    user_id: int
    address: str


class _Place(NamedTuple):
    """The guards in which an admitted attempt holds a place, and since when (epoch milliseconds).
    `wait` is how long (milliseconds) its address has no failures left, if it was admitted in spite
    of that."""

    guards: Guards
    since: int
    wait: int


async def password_is_right(
    env: Environment, claim: Claim, password: str, password_hash: str, note: Note
) -> bool:
    """Whether the password has this hash. Raises what `guarded` raises, and `Unavailable` if too
    many passwords wait to be hashed."""

    async def verify() -> bool:
        return await env[Passwords].verify(password, password_hash)

    return await guarded(env, claim, verify, note)


async def guarded(
    env: Environment, claim: Claim, check: Callable[[], Awaitable[T]], note: Note | None = None
) -> T:
    """What `check` returns; if that is false, the attempt is counted as a failure and `note`, if
    there is one, is called.

    An attempt holds a place while it is checked, so that simultaneous guesses are no more than
    successive ones. Raises `RateLimited` if the attempt must wait, or if it failed and would have
    had to wait from an address that the account does not know.
    """
    account, address = name_of(env, claim.email), claim.address
    is_known = await env[Sessions].knows_address(claim.user_id, address)
    own: Guards = (
        [((GUARDED_ACQUAINTANCE, f"{account}:{address}"), ACQUAINTANCE)]
        if is_known
        else [((GUARDED_ACCOUNT, account), ACCOUNT)]
    )
    # The address comes first, so that the wait that is reported does not depend on the account.
    guards: Guards = [((GUARDED_ADDRESS, address), ADDRESS), *own]
    return await _checked(env, await _enter(env, guards, own if is_known else ()), check, note)


async def guarded_code(
    env: Environment, user_id: int, address: str, check: Callable[[], Awaitable[T]]
) -> T:
    """As `guarded`, for the code of a device that a signed-in user types: wrong ones are counted
    for the account and for the address."""
    guards: Guards = [((GUARDED_CODE, name), ACCOUNT) for name in (f"{user_id}", address)]
    return await _checked(env, await _enter(env, guards), check)


async def _checked(
    env: Environment, place: "_Place", check: Callable[[], Awaitable[T]], note: Note | None = None
) -> T:
    guards, since, wait = place
    has_failed = False
    try:
        found = await check()
        has_failed = not found
    finally:
        await env.limiter.leave(guards, env.clock(), entered_ms=since, has_failed=has_failed)
    if has_failed:
        if note is not None:
            await note()
        if wait:
            raise too_many(wait)
    return found


async def forgive(env: Environment, email: str, address: str) -> None:
    """Clears an account's failures from unknown addresses and from this one, for a user who has
    shown in another way that the account is theirs."""
    account = name_of(env, email)
    await env.limiter.forget(
        [(GUARDED_ACCOUNT, account), (GUARDED_ACQUAINTANCE, f"{account}:{address}")]
    )


async def _enter(env: Environment, guards: Guards, known: Guards = ()) -> _Place:
    """Takes a place in these guards, or in those that `known` an address well enough to go without
    the others. While places are held by attempts that may still turn out correct, waits for one."""
    for _ in range(POLLS):
        now = env.clock()
        entry = await env.limiter.enter(guards, now)
        if entry.admitted:
            return _Place(guards, now, 0)
        wait = entry.wait
        if wait and known:  # perhaps only the address must wait
            entry = await env.limiter.enter(known, now)
            if entry.admitted:
                return _Place(known, now, wait)
        if entry.wait:
            raise too_many(wait)
        # Polled, because the places may be held by other processes.
        await asyncio.sleep(SECONDS_BETWEEN_POLLS)
    raise Unavailable("Too many attempts of this account are being checked.", retry_after=2)


def too_many(wait: int) -> RateLimited:
    """The error for an attempt that must wait for so many milliseconds."""
    seconds = -(-wait // 1000)
    return RateLimited(
        f"Too many failed attempts; try again in {counted(seconds, 'second')}.", retry_after=seconds
    )
