"""Signing in with e-mail and password: one answer and one cost for all that is wrong.

Guessing is slowed by `guard`, before any password is hashed.
"""

from typing import NamedTuple

import msgspec

from portico.domain.audit import By
from portico.domain.errors import AuthenticationRequired
from portico.domain.events.signing_in import SignedIn, SignInRefused
from portico.domain.factors import Factors
from portico.domain.proofs import BY_CODE, BY_PASSWORD, Methods
from portico.domain.users import PASSWORD_LENGTH, User, typed_email
from portico.services.change import Change
from portico.services.credentials import SUSPENDED
from portico.services.devices import meet_device
from portico.services.environment import Environment
from portico.services.guard import Claim, password_is_right
from portico.services.passkeys import Assertion, use_assertion
from portico.services.second_factor import KIND as AUTHENTICATOR
from portico.services.second_factor import (
    Code,
    Enrolment,
    add_authenticator,
    check_code,
    code_wanted,
    note_factor_refusal,
    use_code,
)

WRONG = "The e-mail or the password is wrong."
PASSKEY_WANTED = (
    "This account signs in by a passkey, on a page: here it would need an authenticator app too."
)
ENROL_FIRST = (
    "This account must have a second factor and has none: set one up by signing in on a page, such"
    " as the dashboard."
)


class Attempt(NamedTuple):
    """An e-mail and a password, and who says so. `otp` is a code of the second factor."""

    email: str
    password: str
    by: By
    otp: str | None = None

    @property
    def address(self) -> str:
        """Where it comes from."""
        return self.by.address


class Proven(NamedTuple):
    """A user who has proved who they are, and how. Signing in uses up the code that they showed, or
    sets up their new app, and ends the wait of the sign-in whose digest is `pending`. `provider`
    is the name of the one that has said so, None where a password did; `again` where it was asked
    to see who they are anew."""

    user: User
    amr: Methods
    shown: Code | Enrolment | Assertion | None = None
    pending: bytes | None = None
    provider: str | None = None
    again: bool = False


class Entered(NamedTuple):
    """Who has signed in, as they now are, and whether by a device that is new to them, of which
    they are told in the same change."""

    user: User
    is_new_device: bool


class StepGone(AuthenticationRequired):
    """The sign-in waits for no second factor any more."""

    def __init__(self) -> None:
        super().__init__("This took too long, or was done before: sign in again.")


async def check_password(env: Environment, attempt: Attempt) -> User:
    """The user whose e-mail and password these are.

    Raises `AuthenticationRequired` with one message for all that is wrong, and another for whoever
    knows the password of a suspended account; `RateLimited` for too many attempts, and
    `Unavailable` where too many wait to be hashed.
    """
    email = typed_email(attempt.email)
    user = await env.users.by_email(email)
    password_hash = user.password_hash if user and user.password_hash else env.passwords.nobodys
    fits = len(attempt.password) <= PASSWORD_LENGTH[1]
    claim = Claim(email, user.id if user else 0, attempt.address)

    async def note() -> None:
        await note_refusal(env, user, "password", attempt.by)

    password = attempt.password if fits else ""
    right = await password_is_right(env, claim, password, password_hash, note)
    if user is None or not right:
        raise AuthenticationRequired(WRONG)
    if user.suspended_at is not None:
        await note()
        raise AuthenticationRequired(SUSPENDED)
    return user


async def prove(env: Environment, attempt: Attempt) -> Proven:
    """The user whose e-mail and password these are, with the code of the second factor where the
    account has one.

    Raises as `check_password` does; where a code is missing or wrong, with the detail `otp`.
    """
    user = await check_password(env, attempt)
    factors = await env.factors.of_user(user.id)
    if factors.authenticator is not None and attempt.otp:
        code = await check_code(env, user, factors, attempt.otp, attempt.by)
        return Proven(user, BY_CODE, code)
    if wanted := _more_wanted(env, user, factors):
        await note_factor_refusal(env, user, attempt.by)
        raise wanted
    return Proven(user, BY_PASSWORD)


async def lock_user(env: Environment, change: Change, user: User) -> User:
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


async def lock_proven_user(env: Environment, change: Change, proven: Proven) -> User:
    """The user who has proved themselves, as `lock_user`; uses up what they did it by.

    Raises `AuthenticationRequired` also where that was used up, or more is wanted, meanwhile, and
    `StepGone` where the sign-in no longer waits, or no longer for a first factor.
    """
    current = await lock_user(env, change, proven.user)
    if proven.pending and not await env.factors.take_pending(change.tx, proven.pending, change.now):
        raise StepGone
    if isinstance(proven.shown, Code):
        await use_code(env, change, current, proven.shown)
    elif isinstance(proven.shown, Enrolment):
        if await env.factors.of_user(current.id, change.tx):
            raise StepGone
        await add_authenticator(env, change, current, proven.shown)
    elif isinstance(proven.shown, Assertion):
        await use_assertion(env, change, proven.shown)
    elif wanted := _more_wanted(env, current, await env.factors.of_user(current.id, change.tx)):
        raise wanted
    return current


def is_proof(proven: Proven, user: User) -> bool:
    """Whether a sign-in leaves a fresh proof for what `step_up` guards. A provider's word is none:
    whoever finds a browser open gets it by a click. Without a password it is one all the same
    together with a code, or where the provider was asked anew, since nothing else would be."""
    if proven.provider is None:
        return True
    return user.password_hash is None and (isinstance(proven.shown, Code) or proven.again)


def must_enrol(env: Environment, user: User) -> bool:
    """Whether the installation wants a second factor of this user."""
    wanted = env.require_second_factor
    return wanted == "all" or (wanted == "admins" and user.role == "admin")


def _more_wanted(env: Environment, user: User, factors: Factors) -> AuthenticationRequired | None:
    """What is said where a password alone is not enough; None where it is."""
    if factors.passkeys and factors.authenticator is None:
        return AuthenticationRequired(PASSKEY_WANTED)
    if factors:
        return code_wanted()
    return AuthenticationRequired(ENROL_FIRST) if must_enrol(env, user) else None


async def note_sign_in(
    env: Environment,
    change: Change,
    user: User,
    proven: Proven,
    credential: str,
    row_id: int,
    device: str | None = None,
) -> Entered:
    """Moves `last_login_at`, remembers the address and the `device`'s cookie, and notes it and how
    the user has `proven` who they are, in the change that stores the credential (its kind and
    id)."""
    is_new_device = await meet_device(env, change, user, device)
    user = msgspec.structs.replace(user, last_login_at=change.now)
    await env.users.update(change.tx, user)
    by = change.by.named(
        user_id=user.id, email=user.email, credential=credential, credential_id=row_id
    )
    passkey = proven.shown.passkey if isinstance(proven.shown, Assertion) else None
    change.note(SignedIn(user, proven.provider, passkey, _second_factor(proven)), by)
    return Entered(user, is_new_device)


def _second_factor(proven: Proven) -> str | None:
    """What came after the first step, in the audit log's words."""
    if isinstance(proven.shown, Code):
        return AUTHENTICATOR if proven.shown.step is not None else "recovery code"
    return AUTHENTICATOR if isinstance(proven.shown, Enrolment) else None


async def note_refusal(env: Environment, user: User | None, credential: str, by: By) -> None:
    """Writes the audit log, also for an unknown e-mail: what is no e-mail of ours may well be a
    password that was typed into the wrong field, so it is left out."""

    async def work(change: Change) -> None:
        change.note(SignInRefused(user))

    await env.change(by.alone.named(credential=credential), work)
