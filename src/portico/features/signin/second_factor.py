"""Use cases of second factors: check a code, set up an authenticator app, change a factor.

A code is checked under the guard, and used up in the change that signs in: of several simultaneous
uses exactly one succeeds. Wrong codes in a row are counted for the account as well, in the database
and whatever address they come from: only those who know the first factor get that far.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import partial
from typing import NamedTuple

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import (
    AuthenticationRequired,
    Conflict,
    Fault,
    Invalid,
    NotFound,
    Unavailable,
)
from portico.core.secrets import digest
from portico.core.sessions import BY_CODE, BY_PASSWORD, BY_PROVIDER_AND_CODE, level
from portico.core.text import counted
from portico.core.users import User
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.mail.letters import Kind, notify
from portico.features.people.guard import Claim, guarded, too_many
from portico.features.people.storage import Users
from portico.features.people.users import locked_user
from portico.features.signin.rules import (
    MOST_WRONG_CODES,
    PASSKEY,
    RECOVERY_CODES,
    STEP_SECONDS,
    TOLD_WRONG_CODES,
    Authenticator,
    FactorAdded,
    FactorRemoved,
    FactorRenamed,
    Factors,
    FactorsReset,
    Passkey,
    RecoveryCodesRenewed,
    RecoveryCodeUsed,
    SecondFactorRefused,
    matching_step,
    new_secret,
    read_code,
    recovery_code,
    step_of,
)
from portico.features.signin.storage import FactorStore, ProviderStore, Sessions


async def keep_a_way_in(env: Environment, change: Change, user: User) -> None:
    """Raises `Conflict` if the change leaves a locked user without a way to sign in. Links to a
    provider that is no longer configured do not count."""
    if user.password_hash is not None:
        return
    issuers = {provider.issuer for provider in env.sign_in_by.values()}
    links = await env[ProviderStore].links_of(user.id, change.tx)
    factors = await env[FactorStore].of_user(user.id, change.tx)
    if not factors.passkeys and all(link.issuer not in issuers for link in links):
        page = f"{env.addresses.dashboard}/forgot"
        raise Conflict(f"This is your only way to sign in: set a password first, at {page}.")


async def tell_of_ways_in(
    env: Environment, change: Change, user: User, kind: Kind, by: Author, **values: str
) -> None:
    """Tells a user by mail about a change of their ways to sign in or second factors."""
    page = f"{env.addresses.dashboard}/security"
    await notify(env, change, user, kind, by=by, page=page, **values)


CODE_WANTED = (
    "This account has a second factor: send otp, the code from its authenticator app or a recovery"
    " code."
)
WRONG_CODE = (
    "This code is wrong or was used before: enter the one that the app shows now, or a recovery"
    " code."
)
NO_MORE_CODES = (
    f"No code is accepted any more: {MOST_WRONG_CODES} in a row were wrong. Set another password by"
    " a link to reset it, or ask an administrator to reset the second factor."
)
_STALE_PAGE = "This page is out of date, or of another account: load it again."
_OFF_STEPS = 20
"""While an app is set up, how many steps its clock may be off in either direction to be told so."""


class OneTimeCode(NamedTuple):
    """A correct, unused code: of an authenticator's time step, or a recovery code."""

    authenticator_id: int
    step: int | None
    recovery_hash: bytes


class Enrolment(NamedTuple):
    """An app that was set up with a correct code; the code of `step` is used up with it. The
    recovery codes are not stored in the clear."""

    secret: str
    step: int
    name: str
    recovery_codes: tuple[str, ...]


class Offer(NamedTuple):
    """A secret for an app to be set up, and its encrypted form, which the form sends back."""

    secret: str
    sealed: str


async def check_code(
    env: Environment, user: User, factors: Factors, text: str, by: Author
) -> OneTimeCode:
    """Checks a code from a user who has proved the first factor, as `by` says.

    Raises `AuthenticationRequired` with the detail `otp` if it is wrong or was used, or if
    `MOST_WRONG_CODES` were wrong in a row; `RateLimited` after too many guesses, and `Unavailable`
    if this server cannot decrypt the app's secret.
    """
    authenticator = factors.authenticator
    secret = _opened(env, authenticator) if authenticator else ""
    typed = read_code(text)

    async def find(change: Change) -> OneTimeCode | None:
        if authenticator is not None:
            present = step_of(change.now)
            step = matching_step(secret, typed, (present - 1, present, present + 1))
            if step is not None:
                used = authenticator.has_used(step)
                return None if used else OneTimeCode(authenticator.id, step, b"")
        recovery_hash = digest(typed)
        known = await env[FactorStore].has_recovery_code(change.tx, user.id, recovery_hash)
        return OneTimeCode(0, None, recovery_hash) if known else None

    # Checked while the user is locked: of simultaneous guesses each sees those before it counted.
    async def work(change: Change) -> OneTimeCode | None:
        current = await change.lock(env[Users], user.id)
        if current is None:
            raise refused_code(WRONG_CODE)
        wrong = await env[FactorStore].wrong_codes(change.tx, user.id)
        if wrong.in_a_row >= MOST_WRONG_CODES:
            raise refused_code(NO_MORE_CODES)
        if wait := wrong.wait(change.now):
            raise too_many(wait)
        code = await find(change)
        if code is None:
            change.note(SecondFactorRefused(current))
            await env[FactorStore].count_wrong_code(change.tx, user.id, change.now)
            if wrong.in_a_row + 1 == TOLD_WRONG_CODES:
                count, page = str(TOLD_WRONG_CODES), f"{env.addresses.dashboard}/forgot"
                await notify(env, change, current, "wrong-codes", by=by, count=count, page=page)
        return code

    claim = Claim(user.email, user.id, by.address)
    code = await guarded(env, claim, partial(env.change, by, work))
    if code is None:
        raise refused_code(WRONG_CODE)
    return code


async def use_code(env: Environment, change: Change, user: User, code: OneTimeCode) -> None:
    """Uses up a code of a locked user, whose wrong codes are then counted anew. Raises
    `AuthenticationRequired` if it was used before."""
    if code.step is not None:
        used = await env[FactorStore].use_step(
            change.tx, code.authenticator_id, code.step, change.now
        )
    else:
        used = await env[FactorStore].use_recovery_code(change.tx, user.id, code.recovery_hash)
        if used:
            change.note(RecoveryCodeUsed(user))
    if not used:
        raise refused_code(WRONG_CODE)
    await env[FactorStore].forget_wrong_codes(change.tx, user.id)


def offer_authenticator(env: Environment, user_id: int, sealed: str = "") -> Offer:
    """A secret for a user's app: that of an earlier offer if `sealed` is valid, otherwise a new
    one."""
    secret = _offered(env, user_id, sealed)
    if secret is not None:
        return Offer(secret, sealed)
    secret = new_secret(env.random)
    sealed_secret = env[Vault].seal(secret.encode(), _offer_name(env, user_id))
    return Offer(secret, urlsafe_b64encode(sealed_secret).decode())


async def add_authenticator(
    env: Environment, change: Change, user: User, enrolment: Enrolment
) -> tuple[str, ...]:
    """Gives a locked user an authenticator. Returns the recovery codes if they had none before,
    otherwise none. Raises `Conflict` if the user has an authenticator."""
    factors = await env[FactorStore].of_user(user.id, change.tx)
    if factors.authenticator is not None:
        raise Conflict("This account already has an authenticator app: remove it first.")
    new = Authenticator(
        id=0,
        user_id=user.id,
        name=enrolment.name,
        secret=env[Vault].seal(enrolment.secret.encode(), sealed_as(user.id)),
        last_step=enrolment.step,
        created_at=change.now,
        last_used_at=None,
    )
    added = await env[FactorStore].add_authenticator(change.tx, new)
    await env[FactorStore].forget_wrong_codes(change.tx, user.id)
    change.note(FactorAdded(user, added))
    await tell_of_ways_in(env, change, user, "app-added", change.by, name=enrolment.name)
    if factors and factors.recovery_codes:
        return ()  # the codes that the user saved with the first factor must stay valid
    await store_recovery_codes(env, change, user, enrolment.recovery_codes)
    return enrolment.recovery_codes


async def enrol(
    env: Environment, user_id: int, enrolment: Enrolment, session_id: int, by: Author
) -> tuple[str, ...]:
    """Sets up an app for a user who is signed in; their session then counts as authenticated with
    two factors. Returns and raises what `add_authenticator` does; also raises `NotFound`."""

    async def work(change: Change) -> tuple[str, ...]:
        user = await locked_user(env, change, user_id)
        codes = await add_authenticator(env, change, user, enrolment)
        session = await change.lock(env[Sessions], session_id)
        if session is not None and level(session.amr) < level(BY_CODE):
            proven = BY_CODE if session.amr == BY_PASSWORD else BY_PROVIDER_AND_CODE
            await env[Sessions].prove(change.tx, session_id, user_id, proven, change.now)
        return codes

    return await env.change(by, work)


def read_enrolment(env: Environment, user_id: int, sealed: str, code: str, name: str) -> Enrolment:
    """Reads the form that sets up an app: the secret that was offered, and its code of the present
    time step or the one before. Raises `Invalid`."""
    secret = _offered(env, user_id, sealed)
    if secret is None:
        raise Invalid(_STALE_PAGE)
    now, code = step_of(env.clock()), read_code(code)
    step = matching_step(secret, code, (now - 1, now))
    if step is not None:
        return Enrolment(secret, step, name, new_recovery_codes(env))
    message = "This code is wrong: enter the one that the app shows now."
    off = matching_step(secret, code, range(now - _OFF_STEPS, now + _OFF_STEPS + 1))
    if off is not None:
        minutes = counted(max(1, abs(off - now) * STEP_SECONDS // 60), "minute")
        message = (
            f"The clock of the app's device is {minutes} {'fast' if off > now else 'slow'}:"
            " set it from the network, then enter the code that the app shows."
        )
    raise Invalid(message, [Fault("otp", message)])


async def rename_factor(
    env: Environment, user_id: int, kind: str, row_id: int, name: str, by: Author
) -> None:
    """Renames a user's factor. Raises `NotFound`."""

    async def work(change: Change) -> None:
        user = await locked_user(env, change, user_id)
        factor = await _own(env, change, user_id, kind, row_id)
        if factor.name == name:
            return
        await env[FactorStore].rename(change.tx, kind, user_id, row_id, name)
        change.note(FactorRenamed(user, factor, name))

    await env.change(by, work)


async def remove_factor(env: Environment, user_id: int, kind: str, row_id: int, by: Author) -> None:
    """Removes a user's factor, and with the last one the recovery codes. Raises `NotFound`, and
    `Conflict` for a passkey that is the only way to sign in."""

    async def work(change: Change) -> None:
        user = await locked_user(env, change, user_id)
        factor = await _own(env, change, user_id, kind, row_id)
        await env[FactorStore].remove(change.tx, kind, user_id, row_id)
        if kind == PASSKEY:
            await keep_a_way_in(env, change, user)
        if not await env[FactorStore].of_user(user_id, change.tx):
            await env[FactorStore].set_recovery_codes(change.tx, user_id, ())
        change.note(FactorRemoved(user, factor))
        told: Kind = "passkey-removed" if kind == PASSKEY else "app-removed"
        await tell_of_ways_in(env, change, user, told, by, name=factor.name)

    await env.change(by, work)


async def renew_recovery_codes(env: Environment, user_id: int, by: Author) -> tuple[str, ...]:
    """Replaces the recovery codes by new ones. Raises `NotFound` if the user has no factor."""
    codes = new_recovery_codes(env)

    async def work(change: Change) -> None:
        user = await locked_user(env, change, user_id)
        if not await env[FactorStore].of_user(user_id, change.tx):
            raise _gone()
        change.note(RecoveryCodesRenewed(user))
        await store_recovery_codes(env, change, user, codes)
        await tell_of_ways_in(env, change, user, "recovery-codes-renewed", by)

    await env.change(by, work)
    return codes


async def reset_factors(env: Environment, user_id: int, by: Author) -> User:
    """Removes all factors of a user who has lost them. Raises `NotFound`, and `Conflict` if there
    are none."""

    async def work(change: Change) -> User:
        user = await locked_user(env, change, user_id)
        removed = await env[FactorStore].remove_all(change.tx, user_id)
        if not removed:
            raise Conflict("This account has no second factor.")
        await env[FactorStore].forget_wrong_codes(change.tx, user_id)
        await env[FactorStore].delete_pending_of_user(change.tx, user_id)
        change.note(FactorsReset(user, removed))
        await tell_of_ways_in(env, change, user, "factors-reset", by)
        return user

    return await env.change(by, work)


async def _own(
    env: Environment, change: Change, user_id: int, kind: str, row_id: int
) -> Authenticator | Passkey:
    """The locked user's factor of this kind with this id. Raises `NotFound`."""
    factor = (await env[FactorStore].of_user(user_id, change.tx)).find(kind, row_id)
    if factor is None:
        raise _gone()
    return factor


def new_recovery_codes(env: Environment) -> tuple[str, ...]:
    """A new set of recovery codes."""
    return tuple(recovery_code(env.random) for _ in range(RECOVERY_CODES))


async def store_recovery_codes(
    env: Environment, change: Change, user: User, codes: tuple[str, ...]
) -> None:
    """Replaces a locked user's recovery codes; only their digests are stored."""
    hashes = tuple(digest(read_code(code)) for code in codes)
    await env[FactorStore].set_recovery_codes(change.tx, user.id, hashes)


def _opened(env: Environment, authenticator: Authenticator) -> str:
    secret = env[Vault].open(authenticator.secret, sealed_as(authenticator.user_id))
    if secret is None:
        raise Unavailable("This server's secret.key cannot decrypt the account's second factor.")
    return secret.decode()


def _offered(env: Environment, user_id: int, sealed: str) -> str | None:
    try:
        secret = env[Vault].open(urlsafe_b64decode(sealed.encode()), _offer_name(env, user_id))
    except ValueError:
        return None
    return None if secret is None else secret.decode()


def sealed_as(user_id: int) -> str:
    """The name under which an account's authenticator is sealed."""
    return f"authenticator of {user_id}"


def _offer_name(env: Environment, user_id: int) -> str:
    return f"{env.name} authenticator offered to {user_id}"


def refused_code(message: str) -> AuthenticationRequired:
    """The error for a code that is missing or not accepted."""
    return AuthenticationRequired(message, [Fault("otp", message)])


def _gone() -> NotFound:
    return NotFound("This factor was removed meanwhile.")
