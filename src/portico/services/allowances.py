"""Hourly limits of mails and sign-ups."""

from portico.domain.errors import RateLimited
from portico.domain.limits import Plan
from portico.domain.text import counted
from portico.domain.times import HOUR, SECOND
from portico.domain.users import email_key
from portico.services.environment import Environment
from portico.services.vault import Vault
from portico.state.callers import MAIL, Caller

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
