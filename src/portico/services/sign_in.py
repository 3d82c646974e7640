"""Signing in with e-mail and password: one answer and one cost for all that is wrong.

Guessing is slowed by `guard`, before any password is hashed.
"""

from typing import NamedTuple

import msgspec

from portico.domain.audit import Actor
from portico.domain.errors import AuthenticationRequired
from portico.domain.users import PASSWORD_LENGTH, User
from portico.services.environment import Environment
from portico.services.guard import Claim, password_is_right
from portico.storage.database import Transaction

WRONG = "The e-mail or the password is wrong."

# What an unknown e-mail is checked against: a hash with the parameters of every other.
_NOBODYS_HASH = (
    "$argon2id$v=19$m=19456,t=2,p=1"
    "$bm9ib2R5J3MgcGFzc3dvcmQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)


class Attempt(NamedTuple):
    """An e-mail and a password, and who says so."""

    email: str
    password: str
    by: Actor

    @property
    def address(self) -> str:
        """Where it comes from."""
        return self.by.address or ""


async def check_password(env: Environment, attempt: Attempt) -> User:
    """The user whose e-mail and password these are.

    Raises `AuthenticationRequired` with one message for all that is wrong, `RateLimited` for too
    many attempts, and `Unavailable` where too many wait to be hashed.
    """
    user = await env.users.by_email(attempt.email)
    password_hash = user.password_hash if user and user.password_hash else _NOBODYS_HASH
    fits = len(attempt.password) <= PASSWORD_LENGTH[1]
    claim = Claim(attempt.email, user.id if user else 0, attempt.address)
    right = await password_is_right(env, claim, attempt.password if fits else "", password_hash)
    if user is None or user.password_hash is None or not (fits and right):
        await _note_refusal(env, attempt, user)
        raise AuthenticationRequired(WRONG)
    return user


async def still(env: Environment, tx: Transaction, user: User) -> User:
    """The user whose password was checked, as it now is; nobody changes it until `tx` ends.

    For the beginning of the transaction that stores a credential: whatever refers to the user's row
    holds it too, and of two that then want it for themselves each would wait for the other. Raises
    `AuthenticationRequired` for one who was deleted, or whose password changed, meanwhile.
    """
    current = await env.users.get(user.id, tx)
    if current is None or current.password_hash != user.password_hash:
        raise AuthenticationRequired(WRONG)
    return current


async def note_sign_in(
    env: Environment, tx: Transaction, user: User, attempt: Attempt, credential: str, row_id: int
) -> User:
    """Moves `last_login_at`, remembers the address and writes the audit log, in the transaction
    that stores the credential (its kind and id). Returns the user as it now is."""
    now = env.clock()
    user = msgspec.structs.replace(user, last_login_at=now)
    await env.users.update(tx, user)
    await env.sessions.know_address(tx, user.id, attempt.address, now)
    by = msgspec.structs.replace(
        attempt.by, user_id=user.id, email=user.email, credential=credential, credential_id=row_id
    )
    await env.audit.record(tx, by, now, "sign_in", target="user", target_id=user.id)
    return user


async def _note_refusal(env: Environment, attempt: Attempt, user: User | None) -> None:
    """Writes the audit log, also for an unknown e-mail: what is no e-mail of ours may well be a
    password that was typed into the wrong field, so it is left out."""
    by = msgspec.structs.replace(attempt.by, credential="password")
    async with env.db.transaction() as tx:
        await env.audit.record(
            tx,
            by,
            env.clock(),
            "sign_in.refused",
            target="user",
            target_id=user.id if user else None,
        )
