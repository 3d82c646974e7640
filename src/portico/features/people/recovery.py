"""Use cases of links in mails: to reset a password, to verify an e-mail, and to change it.

A link contains a token that works once. Only its digest is stored.
"""

from typing import Literal, NamedTuple

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import BrokenRule, Conflict, Fault, Invalid, PermissionDenied
from portico.core.secrets import digest, mint
from portico.core.times import HOUR
from portico.core.users import User
from portico.core.users import email as normalised
from portico.data.database import UniqueViolation
from portico.environment import Environment
from portico.features.mail.letters import (
    Ask,
    WaitingMail,
    admit,
    ask,
    letter,
    post,
    reader,
    without_user,
)
from portico.features.mail.storage import Mail
from portico.features.people.endings import end_sign_ins
from portico.features.people.guard import forgive, mails_to
from portico.features.people.mirrors import try_to_update_mirror
from portico.features.people.passwords import Passwords, require_chosen
from portico.features.people.rules import EmailVerified, LinkAsked, LinkGiven, PasswordReset
from portico.features.people.storage import NOWHERE, EmailToken, EmailTokens, Users
from portico.features.people.users import (
    locked_user,
    prove_password,
    store_change,
    taken_meanwhile,
    tell_changed,
)
from portico.features.signin.storage import FactorStore

HANDED_HOURS = 24
"""How many hours a link is valid that an admin hands over."""

_INVALID_LINK = (
    "This link has expired, was used before, or was replaced by a newer one: open the latest one,"
    " or ask for a new one. A new password or e-mail also invalidates it."
)


class Link(NamedTuple):
    """A kind of link, named like the mail that contains it, and how many hours it is valid."""

    purpose: Literal["reset", "verify", "new-email"]
    hours: int


class HandedOver(NamedTuple):
    """A link that an admin hands over to a user, and when it expires (epoch milliseconds)."""

    user: User
    link: str
    expires_at: int


RESET = Link("reset", 1)
VERIFY = Link("verify", 24)
NEW_EMAIL = Link("new-email", 24)


async def ask_reset(env: Environment, email: str, by: Author) -> None:
    """Mails the user with this e-mail, if there is one, a link to `reset_password`.

    Everything that depends on the account happens later, so that the answer does not reveal whether
    there is one. An account gets at most three such mails an hour. Raises `Unavailable` if too many
    mails wait.
    """
    try:
        address = normalised(email)
    except BrokenRule:
        return
    await ask(env, Ask("reset", address, by.actor))


async def give_reset(env: Environment, user_id: int, by: Author) -> HandedOver:
    """Creates a link to `reset_password` for an admin to hand over. It is valid for 24 hours and
    replaces earlier ones. It is not mailed, so its use verifies no e-mail.

    Raises `NotFound`, `Conflict` for a mirror and for a suspended user, and `PermissionDenied` for
    the caller's own account, which needs the current password. The caller must have the scope
    `admin`.
    """
    if by.actor.user_id == user_id:
        raise PermissionDenied("Change your own password with the current one, not with a link.")
    token = mint("", env.random)
    giver_id = by.actor.user_id

    async def work(change: Change) -> HandedOver:
        # Whoever suspends the giver meanwhile ends this link too. By order of ids: two admins may
        # do this for each other.
        for one in sorted({user_id, giver_id or user_id}):
            await change.lock(env[Users], one)
        user = await locked_user(env, change, user_id)
        if user.account_id is not None:
            raise Conflict("This user mirrors a live account: reset the password of that account.")
        if user.suspended_at is not None:
            raise Conflict("This user is suspended: resume them first.")
        await env[EmailTokens].delete_of_user(change.tx, user.id, purpose=RESET.purpose)
        until = change.now + HANDED_HOURS * HOUR
        stored = EmailToken(user.id, RESET.purpose, NOWHERE, until, giver_id=giver_id)
        await env[EmailTokens].insert(change.tx, digest(token), stored)
        change.note(LinkGiven(user, RESET.purpose))
        return HandedOver(user, _address(env, RESET, token), stored.expires_at)

    return await env.change(by, work)


async def ask_verification(env: Environment, user: User, by: Author) -> None:
    """Mails a user a link to `verify_email`, at most three an hour. Raises `RateLimited`, and
    `Unavailable` if too many mails wait."""
    await _write(env, user, VERIFY, by)


def another_email(user: User, address: str) -> str:
    """Normalises an e-mail that is not the user's. Raises `BrokenRule`."""
    address = normalised(address)
    if address == user.email:
        raise BrokenRule("is already your e-mail")
    return address


async def ask_new_email(env: Environment, user: User, email: str, current: str, by: Author) -> None:
    """Mails a link to `take_new_email` to the e-mail that a user wants. `current` is the user's
    password.

    Only the recipient who opens the link learns whether another user has that e-mail. Raises
    `Invalid`, `RateLimited` after too many wrong passwords and for more than three links an hour,
    and `Unavailable` if too many mails wait.
    """
    try:
        another_email(user, email)
    except BrokenRule as broken:
        raise Invalid(f"This {broken}.", [Fault("email", str(broken))]) from None
    await prove_password(env, user, current, by)
    await _write(env, user, NEW_EMAIL, by, to=email)


async def take_new_email(env: Environment, token: str, by: Author) -> bool:
    """Changes the e-mail of a token's user to the address that the token was sent to, and tells the
    old and the new address. Returns whether that verifies the e-mail, because the token was mailed.
    Raises `Invalid` if the token is not valid, and `Duplicate` if another user has that e-mail."""
    found = await find_link(env, token, NEW_EMAIL)
    owner = await _owner(env, found)

    async def work(change: Change) -> None:
        user = await _use(env, change, token, found)
        changed = msgspec.structs.replace(user, email=found.email)
        verified_at = change.now if found.mailed else None
        after = await store_change(env, change, user, changed, email_verified_at=verified_at)
        await tell_changed(env, change, user, after)

    try:
        await env.change(by.proving("none", owner), work)
    except UniqueViolation as error:
        raise taken_meanwhile() from error
    await try_to_update_mirror(env, found.user_id)
    return found.mailed


async def reset_password(env: Environment, token: str, password: str, by: Author) -> None:
    """Sets the password of a token's user, which must satisfy `chosen_passwords.chosen`.

    Ends all sessions, logins and consents of the account; API keys stay. If the token was mailed to
    the account's e-mail, that is verified too. Raises `Invalid` if the token is not valid or the
    password is easy to guess, and `Unavailable` if too many passwords wait to be hashed.
    """
    found = await find_link(env, token, RESET)
    owner = await _owner(env, found)
    require_chosen(password, name=owner.name, email=owner.email)
    password_hash = await env[Passwords].hash(password)

    async def work(change: Change) -> User:
        user = await _use(env, change, token, found)
        verified_at = user.email_verified_at
        if found.mailed:  # and the e-mail is the same still: a new one ends all links
            verified_at = verified_at or change.now
        changed = msgspec.structs.replace(
            user,
            password_hash=password_hash,
            email_verified_at=verified_at,
            updated_at=change.now,
        )
        await env[Users].update(change.tx, changed)
        await env[FactorStore].forget_wrong_codes(change.tx, user.id)
        await end_sign_ins(env, change, user.id)
        for link in (RESET, NEW_EMAIL):
            await env[EmailTokens].delete_of_user(change.tx, user.id, purpose=link.purpose)
        change.note(PasswordReset(changed))
        await tell_changed(env, change, user, changed)
        return changed

    after = await env.change(by.proving("none", owner), work)
    await try_to_update_mirror(env, after.id)
    await forgive(env, after.email, by.address)


async def verify_email(env: Environment, token: str, by: Author) -> None:
    """Marks the e-mail that the token was sent to as verified. Raises `Invalid` if the token is not
    valid: a new e-mail ends it."""
    found = await find_link(env, token, VERIFY)
    owner = await _owner(env, found)

    async def work(change: Change) -> None:
        user = await _use(env, change, token, found)
        changed = msgspec.structs.replace(user, email_verified_at=change.now, updated_at=change.now)
        await env[Users].update(change.tx, changed)
        change.note(EmailVerified(changed))

    await env.change(by.proving("none", owner), work)
    await try_to_update_mirror(env, found.user_id)


async def find_link(env: Environment, token: str, link: Link) -> EmailToken:
    """The stored token of a link, which is not used up yet: invalid tokens are refused before
    anything is hashed or locked. Raises `Invalid` if the token is not valid."""
    found = await env[EmailTokens].by_hash(digest(token))
    if found is None or found.purpose != link.purpose or found.expires_at <= env.clock():
        raise _invalid_link()
    return found


async def _owner(env: Environment, found: EmailToken) -> User:
    """The user that a link was made for, who acts by it. Raises `Invalid` if they were deleted."""
    owner = await env[Users].get(found.user_id)
    if owner is None:
        raise _invalid_link()
    return owner


async def _use(env: Environment, change: Change, token: str, found: EmailToken) -> User:
    """Uses up the token, after locking its user; returns the user. Raises `Invalid`."""
    user = await change.lock(env[Users], found.user_id)
    used = await env[EmailTokens].take(
        change.tx, digest(token), purpose=found.purpose, now=change.now
    )
    if user is None or user.suspended_at is not None or used is None:
        raise _invalid_link()
    return user


def _invalid_link() -> Invalid:
    return Invalid(_INVALID_LINK, [Fault("token", _INVALID_LINK)])


async def write_reset(env: Environment, asked: Ask, place: Mail) -> None:
    """Writes the mail that `ask_reset` asked for, if there is an account. Raises what `admit` and
    `post` raise."""
    user = await env[Users].by_email(asked.email)
    # A mirror user gets no password: its e-mail may be one that its account no longer has.
    if user is not None and user.account_id is None and user.suspended_at is None:
        await _write(env, user, RESET, Author(asked.by), place=place)


async def _write(
    env: Environment,
    user: User,
    link: Link,
    by: Author,
    *,
    to: str | None = None,
    place: Mail | None = None,
) -> None:
    """Creates a token, which replaces those that were mailed before, and the letter with its link,
    `to` another address than the account's if given. Does nothing if the account has changed since
    it was read. Tokens that an admin handed over stay valid, because anybody can ask for a mail.
    `place` is that of the `Ask`, if there is one. Raises what `admit` and `post` raise."""
    to = to or user.email
    token = mint("", env.random)
    # Of the person who asked, the mail contains only the IP address.
    page = _address(env, link, token)
    until = env.clock() + link.hours * HOUR
    await admit(env, mails_to(user.id, link.purpose), place)

    async def work(change: Change) -> None:
        present = await change.lock(env[Users], user.id)
        if present is None or present.email != user.email or present.suspended_at is not None:
            return
        # The password that the user proved themselves with may have been changed meanwhile.
        if link is NEW_EMAIL and present.password_hash != user.password_hash:
            return
        await env[EmailTokens].delete_sent(change.tx, user.id, link.purpose)
        stored = EmailToken(user.id, link.purpose, to, until, mailed=env.has_mail_server)
        await env[EmailTokens].insert(change.tx, digest(token), stored)
        change.note(LinkAsked(user, link.purpose))
        brought = letter(
            env, link.purpose, reader(user, to), by=without_user(by), link=page, until=until
        )
        await post(env, change, WaitingMail(link.purpose, brought, until=until), place)

    await env.change(by.without_principal, work)


def _address(env: Environment, link: Link, token: str) -> str:
    """The address of the page that a link opens."""
    return f"{env.addresses.dashboard}/{link.purpose}?token={token}"
