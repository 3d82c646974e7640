"""Signing in with e-mail and password: one answer and one cost for all that is wrong.

Guessing is slowed by `guard`, before any password is hashed.
"""

from typing import NamedTuple

import msgspec

from portico.domain.audit import By
from portico.domain.errors import AuthenticationRequired
from portico.domain.events.signing_in import SignedIn, SignInRefused
from portico.domain.users import PASSWORD_LENGTH, User
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.guard import Claim, password_is_right

WRONG = "The e-mail or the password is wrong."
SUSPENDED = "This account is suspended; ask an administrator."


class Attempt(NamedTuple):
    """An e-mail and a password, and who says so."""

    email: str
    password: str
    by: By

    @property
    def address(self) -> str:
        """Where it comes from."""
        return self.by.address


async def check_password(env: Environment, attempt: Attempt) -> User:
    """The user whose e-mail and password these are.

    Raises `AuthenticationRequired` with one message for all that is wrong, and another for whoever
    knows the password of a suspended account; `RateLimited` for too many attempts, and
    `Unavailable` where too many wait to be hashed.
    """
    user = await env.users.by_email(attempt.email)
    password_hash = user.password_hash if user and user.password_hash else env.passwords.nobodys
    fits = len(attempt.password) <= PASSWORD_LENGTH[1]
    claim = Claim(attempt.email, user.id if user else 0, attempt.address)
    right = await password_is_right(env, claim, attempt.password if fits else "", password_hash)
    if user is None or user.password_hash is None or not (fits and right):
        await _note_refusal(env, attempt, user)
        raise AuthenticationRequired(WRONG)
    if user.suspended_at is not None:
        await _note_refusal(env, attempt, user)
        raise AuthenticationRequired(SUSPENDED)
    return user


async def lock_proven_user(env: Environment, change: Change, user: User) -> User:
    """The user whose password was checked, as it now is; nobody changes it until the change ends.

    Raises `AuthenticationRequired` for one who was deleted or suspended, or whose password changed,
    meanwhile.
    """
    current = await change.lock(env.users, user.id)
    if current is None or current.password_hash != user.password_hash:
        raise AuthenticationRequired(WRONG)
    if current.suspended_at is not None:
        raise AuthenticationRequired(SUSPENDED)
    return current


async def note_sign_in(
    env: Environment, change: Change, user: User, credential: str, row_id: int
) -> User:
    """Moves `last_login_at`, remembers the address and notes it, in the change that stores the
    credential (its kind and id). Returns the user as it now is."""
    user = msgspec.structs.replace(user, last_login_at=change.now)
    await env.users.update(change.tx, user)
    await env.sessions.know_address(change.tx, user.id, change.by.address, change.now)
    by = change.by.named(
        user_id=user.id, email=user.email, credential=credential, credential_id=row_id
    )
    change.note(SignedIn(user), by)
    return user


async def _note_refusal(env: Environment, attempt: Attempt, user: User | None) -> None:
    """Writes the audit log, also for an unknown e-mail: what is no e-mail of ours may well be a
    password that was typed into the wrong field, so it is left out."""

    async def work(change: Change) -> None:
        change.note(SignInRefused(user))

    await env.change(attempt.by.alone.named(credential="password"), work)
