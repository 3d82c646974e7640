"""Signing in with e-mail and password. Every failure gets the same answer and costs the same time.

`guard` slows down guessing, before any password is hashed.
"""

from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from portico.change import Change
from portico.core.audit import Author, Tried
from portico.core.errors import AuthenticationRequired, NotFound
from portico.core.secrets import digest
from portico.core.sessions import BY_CODE, BY_PASSWORD, Methods, read_agent
from portico.core.users import PASSWORD_LENGTH, User, normalized_password, typed_email
from portico.environment import Environment
from portico.features.access.backchannel import announce_end, announce_ends
from portico.features.access.credentials import SUSPENDED
from portico.features.access.rules import ClientAccessEnded
from portico.features.access.storage import Clients, Grants
from portico.features.mail.letters import notify
from portico.features.people.endings import end_sign_ins
from portico.features.people.guard import Claim, password_is_right
from portico.features.people.passwords import Passwords
from portico.features.people.storage import Users
from portico.features.people.users import locked_user
from portico.features.signin.passkeys import Assertion, use_assertion
from portico.features.signin.rules import (
    AUTHENTICATOR,
    Factors,
    GrantRevoked,
    SecondFactorRefused,
    SessionRevoked,
    SignedIn,
    SignedOutEverywhere,
    SignInRefused,
)
from portico.features.signin.second_factor import (
    CODE_WANTED,
    Enrolment,
    OneTimeCode,
    add_authenticator,
    check_code,
    refused_code,
    use_code,
)
from portico.features.signin.storage import FactorStore, Sessions
from portico.limits.protocol import network_of


async def end_session(
    env: Environment, session_id: int, by: Author, *, of_user: int | None = None
) -> None:
    """Ends a cookie session at once. Raises `NotFound`."""

    async def work(change: Change) -> None:
        await change.check()
        session = await change.lock(env[Sessions], session_id)
        if session is None or of_user not in (None, session.user_id):
            raise NotFound(f"There is no session {session_id}.")
        await env[Sessions].delete(change.tx, session_id)
        await announce_end(env, change, session)
        change.note(SessionRevoked(session))

    await env.change(by, work)


async def end_login(
    env: Environment, grant_id: int, by: Author, *, of_user: int | None = None
) -> None:
    """Ends a login at once, with all its tokens. Raises `NotFound`, also if it is already
    revoked."""

    async def work(change: Change) -> None:
        await change.check()
        grant = await change.lock(env[Grants], grant_id)
        if (
            grant is None
            or grant.client_row_id is not None
            or of_user not in (None, grant.user_id)
            or not await env[Grants].revoke(change.tx, grant_id, change.now)
        ):
            raise NotFound(f"There is no login {grant_id}.")
        change.note(GrantRevoked(grant_id, grant.user_id, {"client_id": None}))

    await env.change(by, work)


async def end_application(env: Environment, client_row_id: int, user_id: int, by: Author) -> None:
    """Ends everything that a user allows a client at once, and announces that to it. Raises
    `NotFound`, also if the user allows it nothing."""

    async def work(change: Change) -> None:
        await change.check()
        await locked_user(env, change, user_id)
        client = await change.lock(env[Clients], client_row_id)
        if client is None or not await env[Grants].allows(
            change.tx, user_id, client_row_id, change.now
        ):
            raise NotFound("This user does not allow this application anything.")
        await announce_ends(env, change, user_id, client_row_id)
        grants = await env[Grants].revoke_of_user(change.tx, user_id, change.now, client_row_id)
        change.note(ClientAccessEnded(client, user_id, grants))

    await env.change(by, work)


async def sign_out_everywhere(
    env: Environment, user_id: int, by: Author, *, but_session: int = 0
) -> tuple[int, int]:
    """Ends a user's sessions except `but_session`, and all logins and consents; API keys stay.
    Returns how many sessions and how many grants it ended. Raises `NotFound`."""

    async def work(change: Change) -> tuple[int, int]:
        await change.check()
        user = await locked_user(env, change, user_id)
        sessions, grants = await end_sign_ins(env, change, user_id, but_session=but_session)
        change.note(SignedOutEverywhere(user, sessions, grants))
        return sessions, grants

    return await env.change(by, work)


async def log_out(
    env: Environment, *, access_token: str | None, refresh_token: str | None, by: Author
) -> bool:
    """Ends the logins that these tokens belong to, even if the tokens have expired. Tokens that are
    unknown, belong to an application or to a login that has ended are ignored. Returns whether any
    login was ended."""
    found = [
        await env[Grants].by_access(digest(access_token)) if access_token else None,
        await env[Grants].by_refresh(digest(refresh_token)) if refresh_token else None,
    ]
    ended = False
    for owned in found:
        if owned is None or owned.grant.client_row_id is not None:
            continue
        grant = owned.grant
        whose = by.without_principal.named(
            user_id=grant.user_id,
            email=owned.email,
            credential="jwt",
            credential_id=grant.id,
        )
        with suppress(NotFound):
            await end_login(env, grant.id, whose)
            ended = True
    return ended


async def remember_device(env: Environment, change: Change, user: User, device: str | None) -> bool:
    """Remembers the address that a locked user signs in from, and the secret of the `device`
    cookie, if any. Returns whether both are new to an account that has signed in before."""
    address, sessions, tx = change.by.address, env[Sessions], change.tx
    network = network_of(address)
    # The prefix length keeps a network apart from its first address, which may be a stranger's.
    places = [address] if network is None else [address, f"{network}/48"]
    known = user.last_login_at is None
    for place in places:
        known = known or await sessions.knows_address(user.id, place, tx)
        await sessions.know_address(tx, user.id, place, change.now)
    if device is not None:
        known = known or await sessions.knows_device(tx, user.id, digest(device))
        await sessions.know_device(tx, user.id, digest(device), change.now)
    return not known


async def tell_new_device(env: Environment, change: Change, user: User, user_agent: str) -> None:
    """Tells a user by mail about their sign-in on a new device."""
    page = f"{env.addresses.dashboard}/devices"
    device = read_agent(user_agent)
    await notify(env, change, user, "new-device", by=change.by, device=device, page=page)


WRONG = "The e-mail or the password is wrong."
PASSKEY_WANTED = (
    "This account signs in with a passkey, which works only on pages: add an authenticator app to"
    " sign in here."
)
ENROL_FIRST = (
    "This account must have a second factor but has none: sign in on a page, such as the dashboard,"
    " to set one up."
)


def first_step(provider: str | None) -> Tried:
    """The first step of a sign-in: by a `provider`, or by the password if that is None."""
    return "password" if provider is None else "provider"


class Attempt(NamedTuple):
    """An e-mail and a password, and who sent them. `otp` is a code of the second factor."""

    email: str
    password: str
    by: Author
    otp: str | None = None


class Proven(NamedTuple):
    """A user who has proved who they are, and how. Signing in uses up the code or assertion that
    they have `shown`, or sets up their new app, and finishes the pending sign-in whose digest is
    `pending`. `provider` is the name of the provider that identified them, None for a password;
    `again` is whether the provider was asked to authenticate them anew."""

    user: User
    amr: Methods
    shown: OneTimeCode | Enrolment | Assertion | None = None
    pending: bytes | None = None
    provider: str | None = None
    again: bool = False

    def by(self, by: Author) -> Author:
        """`by` as the user, who has no credential yet."""
        by_passkey = isinstance(self.shown, Assertion)
        return by.proving("passkey" if by_passkey else first_step(self.provider), self.user)


class Entered(NamedTuple):
    """The user who has signed in, as stored, and whether their device is new to them: then the
    same change must tell them."""

    user: User
    is_new_device: bool


class StepGone(AuthenticationRequired):
    """The sign-in no longer waits for a second factor."""

    def __init__(self) -> None:
        super().__init__("This sign-in took too long or is already finished: sign in again.")


async def check_password(env: Environment, attempt: Attempt) -> User:
    """The user with this e-mail and password.

    Raises `AuthenticationRequired`, with the same message for every failure except the right
    password of a suspended account; `RateLimited` after too many attempts, and `Unavailable` if too
    many passwords wait to be hashed.
    """
    email = typed_email(attempt.email)
    user = await env[Users].by_email(email)
    password_hash = user.password_hash if user and user.password_hash else env[Passwords].dummy_hash
    fits = len(normalized_password(attempt.password)) <= PASSWORD_LENGTH[1]
    claim = Claim(email, user.id if user else 0, attempt.by.address)
    note = partial(note_refusal, env, user, "password", attempt.by)
    password = attempt.password if fits else ""
    right = await password_is_right(env, claim, password, password_hash, note)
    if user is None or not right:
        raise AuthenticationRequired(WRONG)
    if user.suspended_at is not None:
        await note()
        raise AuthenticationRequired(SUSPENDED)
    return user


async def prove(env: Environment, attempt: Attempt) -> Proven:
    """The user with this e-mail and password and, if the account has a second factor, its code.

    Raises what `check_password` raises; if the code is missing or wrong, with the detail `otp`.
    """
    user = await check_password(env, attempt)
    factors = await env[FactorStore].of_user(user.id)
    if factors.authenticator is not None and attempt.otp:
        code = await check_code(env, user, factors, attempt.otp, attempt.by.proving("password"))
        return Proven(user, BY_CODE, code)
    if wanted := _more_wanted(env, user, factors):
        await env.change.note(attempt.by.proving("password"), SecondFactorRefused(user))
        raise wanted
    return Proven(user, BY_PASSWORD)


async def lock_user(env: Environment, change: Change, user: User) -> User:
    """The user whose password was checked, read again and locked until the change ends.

    Raises `AuthenticationRequired` if they were deleted or suspended, or their password was
    changed, meanwhile.
    """
    current = await change.lock(env[Users], user.id)
    if current is None or current.password_hash != user.password_hash:
        raise AuthenticationRequired(WRONG)
    if current.suspended_at is not None:
        raise AuthenticationRequired(SUSPENDED)
    return current


async def lock_proven_user(env: Environment, change: Change, proven: Proven) -> User:
    """Locks the proven user as `lock_user` does, and uses up the proof that they have shown.

    Raises `AuthenticationRequired` also if that was used up, or a second factor has become
    necessary, meanwhile; and `StepGone` if the sign-in is no longer pending, or the user who was to
    enrol has a factor by now.
    """
    current = await lock_user(env, change, proven.user)
    if proven.pending and not await env[FactorStore].take_pending(
        change.tx, proven.pending, change.now
    ):
        raise StepGone
    if isinstance(proven.shown, OneTimeCode):
        await use_code(env, change, current, proven.shown)
    elif isinstance(proven.shown, Enrolment):
        if await env[FactorStore].of_user(current.id, change.tx):
            raise StepGone
        await add_authenticator(env, change, current, proven.shown)
    elif isinstance(proven.shown, Assertion):
        await use_assertion(env, change, proven.shown)
    elif wanted := _more_wanted(
        env, current, await env[FactorStore].of_user(current.id, change.tx)
    ):
        raise wanted
    return current


def is_proof(proven: Proven, user: User) -> bool:
    """Whether a sign-in counts as a fresh proof for what `step_up` guards. A provider's answer does
    not: in a browser left open, one click gets it. For a user without a password it does count
    together with a code, or if the provider was asked to authenticate them anew, because they have
    no other proof."""
    if proven.provider is None:
        return True
    return user.password_hash is None and (isinstance(proven.shown, OneTimeCode) or proven.again)


def must_enrol(env: Environment, user: User) -> bool:
    """Whether the installation requires a second factor of this user."""
    wanted = env.settings.require_second_factor
    return wanted == "all" or (wanted == "admins" and user.role == "admin")


def _more_wanted(env: Environment, user: User, factors: Factors) -> AuthenticationRequired | None:
    """The error if a password alone is not enough; None if it is."""
    if factors.passkeys and factors.authenticator is None:
        return AuthenticationRequired(PASSKEY_WANTED)
    if factors:
        return refused_code(CODE_WANTED)
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
    """Notes a sign-in and how the user has `proven` who they are, sets `last_login_at`, and
    remembers the address and the `device` cookie. Belongs to the change that stores the credential
    (its kind and row id)."""
    is_new_device = await remember_device(env, change, user, device)
    user = msgspec.structs.replace(user, last_login_at=change.now)
    await env[Users].update(change.tx, user)
    by = change.by.named(
        user_id=user.id, email=user.email, credential=credential, credential_id=row_id
    )
    passkey = proven.shown.passkey if isinstance(proven.shown, Assertion) else None
    change.note(SignedIn(user, proven.provider, passkey, _second_factor(proven)), by)
    return Entered(user, is_new_device)


def _second_factor(proven: Proven) -> str | None:
    """The second factor that was used, as the audit log names it."""
    if isinstance(proven.shown, OneTimeCode):
        return AUTHENTICATOR if proven.shown.step is not None else "recovery code"
    return AUTHENTICATOR if isinstance(proven.shown, Enrolment) else None


async def note_refusal(env: Environment, user: User | None, how: Tried, by: Author) -> None:
    """Notes a refused sign-in. The text of an unknown e-mail is left out of the audit log: it may
    be a password that was typed into the wrong field."""
    await env.change.note(by.proving(how), SignInRefused(user))
