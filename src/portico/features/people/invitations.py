"""Use cases of invitations, with which people create their account themselves.

A link contains a token that works once. Only its digest is stored. An e-mail has at most one
invitation: a new one replaces the old one and its link.
"""

from collections.abc import Callable
from typing import NamedTuple

from portico.change import Change
from portico.core.audit import SYSTEM, Author
from portico.core.errors import Conflict, Fault, Invalid, NotFound
from portico.core.secrets import digest, mint
from portico.core.users import User, mail_domain, same_mailbox
from portico.data.database import UniqueViolation
from portico.environment import Environment
from portico.features.mail.letters import (
    Ask,
    Recipient,
    WaitingMail,
    admit,
    ask,
    letter,
    post,
    reader,
    without_user,
)
from portico.features.mail.storage import Mail
from portico.features.people.guard import SIGN_UPS, mails_to, name_of, take_hourly
from portico.features.people.passwords import Passwords, require_chosen
from portico.features.people.rules import (
    SIGN_UP_VALIDITY,
    VALIDITY,
    Invitation,
    InvitationAccepted,
    InvitationRevoked,
    Invited,
    OfInvitation,
    SignedUp,
    UserCreated,
)
from portico.features.people.storage import Invitations, Users
from portico.features.people.users import taken, taken_meanwhile
from portico.limits.protocol import SIGN_UP, network_of
from portico.outbound.mail import Letter

_INVALID_LINK = (
    "This link has expired, was used or revoked, or was replaced by a newer one: open the latest"
    " one, or ask for a new one."
)


Check = Callable[[Invitation], None]
"""Checks `If-Match` against the stored invitation. Raises `PreconditionFailed`."""


class MadeInvitation(NamedTuple):
    """An invitation, and the address of its link, which is not stored."""

    invitation: Invitation
    link: str


async def invite(
    env: Environment,
    *,
    email: str,
    name: str = "",
    role: str,
    plan: str,
    handed_over: bool,
    by: Author,
    renews: Invitation | None = None,
) -> MadeInvitation:
    """Invites an e-mail, by mail if there is a mail server; replaces an earlier invitation.

    `handed_over` says that the inviting admin sees the link too, so its use does not verify the
    e-mail. Raises `Duplicate` if the e-mail has an account, and what `put` raises. The caller must
    have the scope `admin`.
    """
    invitation = Invitation(
        id=0,
        email=email,
        name=name,
        role=role,
        plan=plan,
        signed_up=False,
        mailed=env.has_mail_server and not handed_over,
        created_at=env.clock(),
        expires_at=env.clock() + VALIDITY,
        inviter_id=by.actor.user_id,
    )
    # In the language of the inviting admin: that of the invited person is not known yet.
    host = await env[Users].get(by.actor.user_id or 0)
    to = Recipient(email) if host is None else Recipient(email, host.language)

    def write(made: MadeInvitation) -> Letter:
        until = invitation.expires_at
        return letter(env, "invitation", to, role=role, link=made.link, until=until)

    written = write if env.has_mail_server else None
    made = await put(env, invitation, Invited, by, written, renews=renews)
    assert made is not None, "an admin's invitation takes every place"  # noqa: S101 - for mypy
    return made


async def read(env: Environment, invitation_id: int) -> Invitation:
    """An admin's invitation. Raises `NotFound`."""
    found = await env[Invitations].get(invitation_id)
    if found is None or found.signed_up:
        raise _missing(invitation_id)
    return found


async def renew(
    env: Environment, invitation_id: int, *, handed_over: bool, by: Author
) -> MadeInvitation:
    """Replaces an admin's invitation by a new one, with a new link that is valid for seven days.
    Raises `NotFound`, `Conflict` if somebody else has just done so, and what `invite` raises."""
    found = await read(env, invitation_id)
    return await invite(
        env,
        email=found.email,
        name=found.name,
        role=found.role,
        plan=found.plan,
        handed_over=handed_over,
        by=by,
        renews=found,
    )


async def revoke(
    env: Environment, invitation_id: int, by: Author, check: Check = lambda _: None
) -> None:
    """Deletes an admin's invitation. Raises `NotFound` and what `check` raises."""

    async def work(change: Change) -> None:
        found = await change.lock(env[Invitations], invitation_id)
        if found is None or found.signed_up:
            raise _missing(invitation_id)
        check(found)
        await env[Invitations].delete(change.tx, invitation_id)
        change.note(InvitationRevoked(found))

    await env.change(by, work)


async def find(env: Environment, token: str) -> Invitation:
    """The invitation with this token. Raises `Invalid` if it is not valid."""
    found = await env[Invitations].by_hash(digest(token))
    if found is None or found.expires_at <= env.clock():
        raise _invalid_link()
    if found.signed_up and not may_sign_up(env, found.email):
        raise _invalid_link()
    return found


def may_sign_up(env: Environment, email: str) -> bool:
    """Whether this e-mail may sign up for an account."""
    domains = env.settings.sign_up_domains
    return env.sign_up_role is not None and (not domains or mail_domain(email) in domains)


async def accept(
    env: Environment, token: str, *, name: str, password: str, by: Author, language: str = "en"
) -> User:
    """Creates the account of an invitation, with the chosen name and password. `language` is the
    user's language tag.

    Raises `Invalid` if the token is not valid or the password is easy to guess, `Duplicate` if the
    e-mail has an account by now, and `Unavailable` if too many passwords wait to be hashed.
    """
    found = await find(env, token)
    require_chosen(password, name=name, email=found.email)
    password_hash = await env[Passwords].hash(password)

    async def work(change: Change) -> User:
        used = await env[Invitations].take(change.tx, digest(token), change.now)
        if used is None:
            raise _invalid_link()
        user = User(
            id=0,
            name=name,
            email=used.email,
            role=used.role,
            plan=used.plan,
            password_hash=password_hash,
            created_at=change.now,
            updated_at=change.now,
            email_verified_at=change.now if used.mailed else None,
            language=language,
        )
        user = await env[Users].insert(change.tx, user)
        themselves = by.proving("none", user)
        change.note(InvitationAccepted(used), themselves)
        change.note(UserCreated(user), themselves)
        return user

    try:
        return await env.change(by.without_principal, work)
    except UniqueViolation as error:
        raise taken_meanwhile() from error


async def accept_by_email(env: Environment, change: Change, email: str) -> Invitation | None:
    """Uses up an admin's invitation of this e-mail, for a user who has shown that it is theirs. The
    caller notes it. None if there is no such invitation, or it has expired."""
    found = await env[Invitations].take_of_email(change.tx, email)
    if found is None or found.signed_up or found.expires_at <= change.now:
        return None
    if not same_mailbox(found.email, email):
        return None
    return found


async def put(
    env: Environment,
    invitation: Invitation,
    noted: type[OfInvitation],
    by: Author,
    write: Callable[[MadeInvitation], Letter] | None,
    *,
    renews: Invitation | None = None,
    place: Mail | None = None,
) -> MadeInvitation | None:
    """Stores an invitation, notes it as `noted`, and mails what `write` returns, if given, in this
    `place`. Returns None if it is a sign-up and an admin has invited the e-mail. Raises `Duplicate`
    if the e-mail has an account, and what `post` raises; with `renews`, also `NotFound` if that
    invitation is gone and `Conflict` if it has changed."""
    token = mint("", env.random)
    link = f"{env.addresses.dashboard}/invitation?token={token}"

    async def work(change: Change) -> MadeInvitation | None:
        if invitation.inviter_id is not None:
            # Whoever suspends the inviter meanwhile ends this invitation too.
            await change.lock(env[Users], invitation.inviter_id)
        if await env[Users].by_email(invitation.email, change.tx) is not None:
            raise taken()
        if renews is not None:
            before = await change.lock(env[Invitations], renews.id)
            if before is None:
                raise _missing(renews.id)
            if before != renews:
                raise Conflict("Somebody else has just changed this invitation: load it again.")
        stored = await env[Invitations].put(change.tx, digest(token), invitation)
        if stored is None:
            return None
        change.note(noted(stored))
        made = MadeInvitation(stored, link)
        if write is not None:
            purpose = "sign-up" if stored.signed_up else "invitation"
            await post(env, change, WaitingMail(purpose, write(made)), place)
        return made

    return await env.change(by, work)


def _missing(invitation_id: int) -> NotFound:
    return NotFound(f"There is no invitation {invitation_id}.")


def _invalid_link() -> Invalid:
    return Invalid(_INVALID_LINK, [Fault("token", _INVALID_LINK)])


async def ask_sign_up(env: Environment, email: str, by: Author, language: str = "en") -> None:
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
    email, by, now = asked.email, without_user(Author(asked.by)), env.clock()
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
    to, until = Recipient(email, asked.language), invitation.expires_at

    def write(made: MadeInvitation) -> Letter:
        return letter(env, "sign-up", to, by=by, link=made.link, until=until)

    if await put(env, invitation, SignedUp, Author(asked.by), write, place=place) is None:
        invited = await env[Invitations].of_email(email)
        if invited is not None:  # otherwise it has just been used or revoked
            to = Recipient(invited.email, asked.language)
            await _send(env, letter(env, "invited-before", to, by=by), place)


async def _send(env: Environment, written: Letter, place: Mail) -> None:
    async def work(change: Change) -> None:
        change.noted_elsewhere()  # nothing but the mail is stored
        await post(env, change, WaitingMail("sign-up", written), place)

    await env.change(SYSTEM, work)
