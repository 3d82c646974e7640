"""Use cases of cookie sessions: open one in one step or two, close it, prove its owner anew.

The first of two steps is a password or another provider's answer. Between the steps there is no
session but a pending sign-in: its secret identifies the user for ten minutes, and only these use
cases accept it. Whatever ends an account's sessions also ends its pending sign-ins.

Actions that a session left open must not allow need a fresh proof. The page that asks for it
carries a token, which is sent with the form that waits for the proof, and is used up by a valid
proof, so that the form is carried out only once.
"""

from typing import NamedTuple

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import AuthenticationRequired, Conflict, NotFound
from portico.core.secrets import digest, mint
from portico.core.sessions import (
    BY_CODE,
    BY_PASSKEY,
    BY_PROVIDER_AND_CODE,
    MAX_SECONDS,
    PENDING_SECONDS,
    Methods,
    Session,
)
from portico.core.times import HOUR, MINUTE, SECOND
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.backchannel import announce_end
from portico.features.access.credentials import ENDED, SUSPENDED
from portico.features.people.guard import forgive
from portico.features.people.storage import Users
from portico.features.people.users import prove_password
from portico.features.signin.passkeys import Assertion, check_assertion, use_assertion
from portico.features.signin.rules import (
    PASSKEY,
    Factors,
    SecondFactorAsked,
    SessionRevoked,
    SignedOut,
)
from portico.features.signin.second_factor import Enrolment, check_code
from portico.features.signin.service import (
    Proven,
    StepGone,
    first_step,
    is_proof,
    lock_proven_user,
    lock_user,
    must_enrol,
    note_refusal,
    note_sign_in,
    tell_new_device,
)
from portico.features.signin.storage import Challenges, FactorStore, PendingSignIn, Sessions

USER_AGENT_LENGTH = 300


class Browser(NamedTuple):
    """The browser that signs in: its `User-Agent`, the cookie of the session that it already has,
    if any, and the `device` cookie that identifies it, if any."""

    agent: str
    cookie: str | None
    device: str | None = None


class Opened(NamedTuple):
    """A new session and its owner, with the secret for its cookie."""

    session: Session
    secret: str
    user: User


async def read_session(env: Environment, session_id: int) -> Session:
    """The session. Raises `NotFound` if it has ended."""
    session = await env[Sessions].get(session_id)
    if session is None:
        raise NotFound(ENDED)
    return session


async def open_session(env: Environment, proven: Proven, by: Author, browser: Browser) -> Opened:
    """Signs in. The session that the browser already has ends, in case an attacker planted it;
    OAuth clients see it go on if it was the same user's. Raises what `lock_proven_user` raises."""
    secret = mint("", env.random)
    replaced = await env[Sessions].by_hash(digest(browser.cookie)) if browser.cookie else None

    sid = env.random(16).hex()
    if replaced is not None and replaced.session.user_id == proven.user.id:
        sid = replaced.session.sid

    async def work(change: Change) -> Opened:
        current = await lock_proven_user(env, change, proven)
        if replaced is not None:
            ended = await env[Sessions].delete(change.tx, replaced.session.id)
            if ended is not None:
                change.note(SessionRevoked(ended, replaced=True))
                if ended.sid != sid:
                    await announce_end(env, change, ended)
        session = Session(
            id=0,
            user_id=current.id,
            address=by.address,
            user_agent=browser.agent[:USER_AGENT_LENGTH],
            created_at=change.now,
            last_seen_at=change.now,
            expires_at=change.now + MAX_SECONDS * SECOND,
            amr=proven.amr,
            proved_at=change.now if is_proof(proven, current) else 0,
            sid=sid,
        )
        session = await env[Sessions].insert(change.tx, digest(secret), session)
        user, is_new_device = await note_sign_in(
            env,
            change,
            current,
            proven,
            "session",
            session.id,
            device=browser.device,
        )
        if is_new_device:
            await tell_new_device(env, change, user, browser.agent)
        return Opened(session, secret, user)

    return await env.change(proven.by(by), work)


async def close_session(env: Environment, by: Author) -> None:
    """Ends the session that `by` is authenticated with."""
    session_id = by.actor.credential_id or 0

    async def work(change: Change) -> None:
        ended = await env[Sessions].delete(change.tx, session_id)
        if ended is not None:
            await announce_end(env, change, ended)
            change.note(SignedOut(session_id))

    # If two do this at once, the second finds nothing to end, which is no error.
    await env.change(by.without_principal, work)


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
        await note_refusal(env, user, PASSKEY, by)
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


FRESH = 15 * MINUTE
"""How long a proof is fresh, in milliseconds."""

WAITS = HOUR
"""How long a form waits for a proof, in milliseconds."""

_DONE = (
    "This form was already carried out, or has waited too long. Nothing was changed now: send it"
    " again if you still want to."
)


def is_fresh(session: Session, now: int) -> bool:
    """Whether a session's owner has recently proved who they are."""
    return now - session.proved_at < FRESH


async def ask_proof(env: Environment, session: Session, by: Author) -> str:
    """Creates the token of a form that waits for its sender's proof."""
    token = mint("", env.random)

    async def work(change: Change) -> None:
        if await change.lock(env[Sessions], session.id) is None:
            raise NotFound(ENDED)
        await env[Challenges].insert(
            change.tx, digest(token), session_id=session.id, expires_at=change.now + WAITS
        )
        change.noted_elsewhere()  # by what the form does

    await env.change(by, work)
    return token


async def prove_by_password(
    env: Environment, user: User, session: Session, token: str, password: str, by: Author
) -> None:
    """Proves who a session's owner is by their password, and uses up the form's token.

    Raises what `prove_password` raises, and `Conflict` if the token was used before or has expired.
    """
    proven = await prove_password(env, user, password, by)
    await _prove(env, user, session, token, proven, None, by)


async def prove_by_passkey(
    env: Environment, user: User, session: Session, token: str, answer: str, by: Author
) -> None:
    """As `prove_by_password`, by a passkey. Raises what `check_assertion` raises, and
    `Conflict`."""
    found, assertion = await check_assertion(env, answer, by)
    if found.id != user.id:
        raise AuthenticationRequired("This passkey belongs to another account.")
    await _prove(env, user, session, token, found.password_hash, assertion, by)


async def _prove(
    env: Environment,
    user: User,
    session: Session,
    token: str,
    password_hash: str | None,
    assertion: Assertion | None,
    by: Author,
) -> None:
    amr = session.amr if assertion is None else BY_PASSKEY

    async def work(change: Change) -> None:
        current = await change.lock(env[Users], user.id)
        if current is None or current.password_hash != password_hash:
            raise Conflict(_DONE)
        if not await env[Challenges].take(
            change.tx, digest(token), session_id=session.id, now=change.now
        ):
            raise Conflict(_DONE)
        if assertion is not None:
            await use_assertion(env, change, assertion)
        await env[Sessions].prove(change.tx, session.id, user.id, amr, change.now)
        change.noted_elsewhere()  # by what the form does

    await env.change(by, work)
