"""Use cases of signing up: people create an account by showing that the e-mail is theirs.

Only the mail says whether there already is an account; neither the answer nor its timing reveals
it.
"""

from portico.domain.audit import SYSTEM, By
from portico.domain.errors import Fault, Invalid, NotFound
from portico.domain.events.invitations import SignedUp
from portico.domain.invitations import SIGN_UP_VALIDITY, Invitation
from portico.mail.protocol import Letter
from portico.services.allowances import SIGN_UPS, mails_to, name_of, take_hourly
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.invitations import Made, may_sign_up, put
from portico.services.letters import Reader, letter, reader, without_user
from portico.services.post import Ask, WaitingMail, admit, ask, post
from portico.state.callers import SIGN_UP, network_of
from portico.storage.invitations import Invitations
from portico.storage.mails import Mail
from portico.storage.users import Users


async def ask_sign_up(env: Environment, email: str, by: By, language: str = "en") -> None:
    """Mails a normalised e-mail a link to create an account on Free, in the language with this tag.
    If there already is an account or an invitation, the mail says so instead.

    An address (an IPv6 /48 network counts as one) may ask ten times an hour. Raises `NotFound` if
    sign-up is off, `Invalid` for a domain that may not sign up, `RateLimited`, and `Unavailable` if
    too many mails wait.
    """
    if env.sign_up_role is None:
        raise NotFound("Sign-up is off here: ask an administrator for an invitation.")
    if not may_sign_up(env, email):
        message = f"must be an address at {' or '.join(env.settings.sign_up_domains)}"
        raise Invalid(f"The e-mail {message}.", [Fault("email", message)])
    where = network_of(by.address) or by.address
    await take_hourly(env, (SIGN_UP, where), SIGN_UPS, "sign-ups from your address")
    await ask(env, Ask("sign-up", email, by.actor, language))


async def write_sign_up(env: Environment, asked: Ask, place: Mail) -> None:
    """Writes the mail that `ask_sign_up` asked for. Raises what `admit` and `post` raise."""
    email, by, now = asked.email, without_user(By(asked.by)), env.clock()
    user = await env[Users].by_email(email)
    name = name_of(env, email)
    await admit(env, mails_to(user.id, asked.purpose) if user else (SIGN_UP, name), place)
    if user is not None:
        if user.suspended_at is None:
            sign_in = f"{env.addresses.dashboard}/sign-in"
            # To the account's address: the one typed may differ and be somebody else's.
            before = letter(env, "signed-up-before", reader(user), by=by, link=sign_in)
            await _send(env, before, place)
        return
    if env.sign_up_role is None:  # since the mail was asked for
        return
    invitation = Invitation(
        id=0,
        email=email,
        name="",
        role=env.sign_up_role,
        plan="free",
        signed_up=True,
        mailed=env.has_mail_server,
        created_at=now,
        expires_at=now + SIGN_UP_VALIDITY,
    )
    to, until = Reader(email, asked.language), invitation.expires_at

    def write(made: Made) -> Letter:
        return letter(env, "sign-up", to, by=by, link=made.link, until=until)

    if await put(env, invitation, SignedUp, By(asked.by), write, place=place) is None:
        invited = await env[Invitations].of_email(email)
        if invited is not None:  # otherwise it has just been used or revoked
            to = Reader(invited.email, asked.language)
            await _send(env, letter(env, "invited-before", to, by=by), place)


async def _send(env: Environment, written: Letter, place: Mail) -> None:
    async def work(change: Change) -> None:
        change.noted_elsewhere()  # nothing but the mail is stored
        await post(env, change, WaitingMail("sign-up", written), place)

    await env.change(SYSTEM, work)
