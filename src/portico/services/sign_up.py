"""Use cases of signing up: an own account, for whoever shows that the e-mail is theirs.

Whether there is an account already shows in the mail alone: neither the answer nor its time tells.
"""

from functools import partial
from hashlib import sha256

from portico.domain.audit import By
from portico.domain.errors import Fault, Invalid, NotFound, RateLimited
from portico.domain.events.invitations import SignedUp
from portico.domain.invitations import SIGN_UP_HOLDS, Invitation
from portico.domain.limits import Plan
from portico.domain.times import HOUR, SECOND
from portico.domain.users import email_key, mailbox
from portico.mail.protocol import Letter
from portico.services.environment import Environment
from portico.services.invitations import put
from portico.services.letters import Reader, letter, reader, whoever
from portico.services.recovery import MAILS
from portico.state.callers import MAIL, SIGN_UP, network_of

PEOPLE = Plan("sign-ups from an address", 10, 10)
"""Counted by the hour, as `MAILS` are: nobody sends mails to strangers by the hundred from here."""


async def ask_sign_up(env: Environment, email: str, by: By, language: str = "en") -> None:
    """Sends a normalised e-mail a link to an account of its own, as a viewer on Free, in the
    language of this tag; whoever has one or is invited already is told so there.

    An address makes at most ten an hour, an IPv6 network of 48 bits being one. Raises `NotFound`
    where nobody signs up, `Invalid` for a domain that is not let in, `RateLimited`, and
    `Unavailable` where too many mails wait.
    """
    if not env.sign_up:
        raise NotFound("Accounts are made by invitation here: ask an administrator.")
    domains = env.sign_up_domains
    if domains and mailbox(email).rpartition("@")[2].lower() not in domains:
        message = f"must be an address at {' or '.join(domains)}"
        raise Invalid(f"The e-mail {message}.", [Fault("email", message)])
    now = env.clock()
    where = network_of(by.address) or by.address
    verdict = await env.limiter.take((SIGN_UP, f"{where}:{now // HOUR}"), PEOPLE, now)
    if not verdict.admitted:
        seconds = -(-(HOUR - now % HOUR) // SECOND)
        raise RateLimited(
            f"Too many sign-ups from your address; try again in {seconds} seconds.",
            retry_after=seconds,
        )
    env.mail_queue.post("sign-up", partial(_write, env, email, by, language))


async def _write(env: Environment, email: str, by: By, language: str) -> Letter | None:
    now, hour = env.clock(), env.clock() // HOUR
    user = await env.users.by_email(email)
    name = sha256(email_key(email).encode()).hexdigest()[:32]
    whose = (MAIL, f"{user.id}:{hour}") if user else (SIGN_UP, f"{name}:{hour}")
    if not (await env.limiter.take(whose, MAILS, now)).admitted:
        return None
    if user is not None:
        if user.suspended_at is not None:
            return None
        sign_in = f"{env.addresses.dashboard}/sign-in"
        return letter(env, "signed-up-before", reader(user, email), by=whoever(by), link=sign_in)
    invitation = Invitation(
        id=0,
        email=email,
        name="",
        role="viewer",
        plan="free",
        signed_up=True,
        mailed=True,
        created_at=now,
        expires_at=now + SIGN_UP_HOLDS,
    )
    made = await put(env, invitation, SignedUp, by.alone)
    to = Reader(email, language)
    if made is None:
        return letter(env, "invited-before", to, by=whoever(by))
    until = invitation.expires_at
    return letter(env, "sign-up", to, by=whoever(by), link=made.link, until=until)
