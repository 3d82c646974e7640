"""What may be asked for so many times an hour."""

from portico.domain.errors import RateLimited
from portico.domain.limits import Plan
from portico.domain.text import counted
from portico.domain.times import HOUR, SECOND
from portico.domain.users import email_key
from portico.services.environment import Environment
from portico.state.callers import MAIL, Caller

MAILS = Plan("mails that somebody asks for", 3, 3)
SIGN_UPS = Plan("sign-ups from an address", 10, 10)
"""Nobody sends mails to strangers by the hundred from here."""


def mails_to(user_id: int, purpose: str) -> Caller:
    """An account, as its mails of one purpose are counted: what strangers may ask for takes nothing
    from what only its owner may."""
    return MAIL, f"{user_id}:{purpose}"


def name_of(env: Environment, email: str) -> str:
    """An e-mail, known or not, as it is counted: a name that tells nobody what was typed, which may
    be a password, and whose guesses nobody can try without the installation's secret."""
    text = f"{env.name} counted {email_key(email)}"
    return env.vault.authenticate(text.encode("utf-8", "replace")).hex()[:32]


async def take_hourly(env: Environment, whose: Caller, plan: Plan, what: str) -> None:
    """Counts one more of `what` in the present hour. Raises `RateLimited` where the plan has no
    more, and `Unavailable`."""
    kind, name = whose
    now = env.clock()
    # The hour's number is part of what is counted.
    verdict = await env.limiter.take((kind, f"{name}:{now // HOUR}"), plan, now)
    if not verdict.admitted:
        seconds = -(-(HOUR - now % HOUR) // SECOND)
        wait = counted(seconds, "second")
        raise RateLimited(f"Too many {what}; try again in {wait}.", retry_after=seconds)
