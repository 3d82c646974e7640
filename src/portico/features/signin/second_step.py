"""The second step of signing in on pages, for users who need a second factor.

The first step is a password or another provider's answer. Between the two steps there is no session
but a pending sign-in: its secret identifies the user for ten minutes, and only these use cases
accept it. Whatever ends an account's sessions also ends its pending sign-ins.
"""

from typing import NamedTuple

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import AuthenticationRequired
from portico.core.secrets import digest, mint
from portico.core.sessions import (
    BY_CODE,
    BY_PASSKEY,
    BY_PROVIDER_AND_CODE,
    PENDING_SECONDS,
    Methods,
)
from portico.core.times import SECOND
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.credentials import SUSPENDED
from portico.features.people.guard import forgive
from portico.features.people.storage import Users
from portico.features.signin.passkeys import KIND, check_assertion
from portico.features.signin.rules import Factors, SecondFactorAsked
from portico.features.signin.second_factor import Enrolment, check_code
from portico.features.signin.service import (
    Proven,
    StepGone,
    first_step,
    lock_user,
    must_enrol,
    note_refusal,
)
from portico.features.signin.sessions import Browser, Opened, open_session
from portico.features.signin.storage import FactorStore, PendingSignIn


class Waiting(NamedTuple):
    """A user who has taken the first step: with a `provider`, or with their password if that is
    None. If they have no factors, they must set one up."""

    user: User
    factors: Factors
    token_hash: bytes
    provider: str | None

    @property
    def amr(self) -> Methods:
        """The methods that they have used once they have also given a code."""
        return BY_CODE if self.provider is None else BY_PROVIDER_AND_CODE


async def needs_second_step(env: Environment, user: User) -> bool:
    """Whether this user's first step is not enough to sign in."""
    return must_enrol(env, user) or bool(await env[FactorStore].of_user(user.id))


async def begin_second_step(
    env: Environment, user: User, by: Author, provider: str | None = None
) -> str:
    """Begins the second step of a user; returns its secret. Raises what `lock_user` raises."""
    secret = mint("", env.random)

    async def work(change: Change) -> None:
        await lock_user(env, change, user)
        waits = PendingSignIn(user.id, change.now + PENDING_SECONDS * SECOND, provider)
        await env[FactorStore].add_pending(change.tx, digest(secret), waits)
        change.note(SecondFactorAsked(user))

    await env.change(by.proving(first_step(provider)), work)
    return secret


async def waiting(env: Environment, secret: str | None) -> Waiting | None:
    """The pending sign-in of this secret; None if it has ended or expired, or if the user's last
    factor was removed meanwhile and none is required."""
    token_hash = digest(secret or "")
    pending = await env[FactorStore].pending(token_hash)
    if pending is None or pending.expires_at <= env.clock():
        return None
    user = await env[Users].get(pending.user_id)
    if user is None:
        return None
    factors = await env[FactorStore].of_user(user.id)
    if not factors and not must_enrol(env, user):
        return None
    return Waiting(user, factors, token_hash, pending.provider)


async def finish_by_code(
    env: Environment, waits: Waiting, text: str, by: Author, browser: Browser
) -> Opened:
    """Signs in with a code of the app, or a recovery code. Raises what `check_code` and
    `open_session` raise."""
    first = by.proving(first_step(waits.provider))
    code = await check_code(env, waits.user, waits.factors, text, first)
    proven = Proven(waits.user, waits.amr, code, waits.token_hash, waits.provider)
    return await open_session(env, proven, by, browser)


async def sign_in_by_passkey(env: Environment, answer: str, by: Author, browser: Browser) -> Opened:
    """Signs in with a passkey alone, which clears the account's failures. Raises what
    `check_assertion` and `open_session` raise."""
    user, assertion = await check_assertion(env, answer, by)
    if user.suspended_at is not None:
        await note_refusal(env, user, KIND, by)
        raise AuthenticationRequired(SUSPENDED)
    opened = await open_session(env, Proven(user, BY_PASSKEY, assertion), by, browser)
    await forgive(env, user.email, by.address)
    return opened


async def finish_by_enrolling(
    env: Environment, waits: Waiting, enrolment: Enrolment, by: Author, browser: Browser
) -> Opened:
    """Signs in by setting up an app. Raises what `open_session` raises, and `StepGone` if the user
    has a factor by now."""
    if waits.factors:
        raise StepGone
    proven = Proven(waits.user, waits.amr, enrolment, waits.token_hash, waits.provider)
    return await open_session(env, proven, by, browser)
