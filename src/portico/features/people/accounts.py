"""Use cases of operators: roles and plans of accounts, and keys for either environment."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from portico.change import Change
from portico.core.audit import SYSTEM, Author
from portico.core.caller import Principal
from portico.core.errors import Conflict, Duplicate, Fault, NotFound, PermissionDenied, invalid
from portico.core.plans import QUOTA_PERCENTS
from portico.core.requests import Quotas, Reached
from portico.core.secrets import Random
from portico.core.users import User, typed_email
from portico.data.database import UniqueViolation
from portico.environment import Environment
from portico.features.access.api_keys import CreatedKey, add_key, create_key
from portico.features.access.rules import NewKey
from portico.features.mail.letters import notify
from portico.features.people.endings import set_suspended
from portico.features.people.mirrors import mirror_user, mirrored, try_to_update_mirror
from portico.features.people.passwords import Passwords
from portico.features.people.rules import QuotaReached, UserCreated
from portico.features.people.storage import Users
from portico.features.people.users import (
    Check,
    keep_an_admin,
    locked_user,
    store_change,
    taken,
    tell_changed,
)
from portico.features.signin.storage import FactorStore

_TAKEN = "Another user has this external_id."


def random_password(random: Random) -> str:
    """A password of 144 random bits that satisfies `core.users.password`."""
    while True:
        password = urlsafe_b64encode(random(18)).decode()
        kinds = (str.isupper, str.islower, str.isdigit)
        if all(any(kind(letter) for letter in password) for kind in kinds):
            return password


async def account(env: Environment, email: str) -> User:
    """The user with this e-mail, which may be typed in any way. Raises `NotFound`."""
    user = await env[Users].by_email(typed_email(email))
    if user is None:
        raise NotFound(f"There is no user with the e-mail {email}.")
    return user


async def create_admin(
    env: Environment, *, name: str, email: str, password: str, key_name: str, by: Author
) -> tuple[User, CreatedKey]:
    """Creates an admin on the plan Enterprise and a live key, in one change and without a mail.
    Raises `Duplicate` if the e-mail is taken."""
    password_hash = await env[Passwords].hash(password)

    async def work(change: Change) -> tuple[User, CreatedKey]:
        user = User(
            id=0,
            name=name,
            email=email,
            role="admin",
            plan="enterprise",
            password_hash=password_hash,
            created_at=change.now,
            updated_at=change.now,
        )
        user = await env[Users].insert(change.tx, user)
        change.note(UserCreated(user))
        new = NewKey(name=key_name, type="live", scopes=None, networks=None, expires_at=None)
        return user, await add_key(env, change, user.id, new, mail_owner=False)

    try:
        return await env.change(by, work)
    except UniqueViolation as error:
        raise taken() from error


async def give_key(
    env: Environment,
    owner: User,
    *,
    name: str,
    key_type: str,
    expires_at: int | None,
    by: Author,
    scopes: Sequence[str] | None = None,
    networks: Sequence[str] | None = None,
    mail_owner: bool = True,
) -> CreatedKey:
    """Creates a key with the values of a `NewKey` for an account of `env`. A key type that belongs
    to the mirroring environment is created there, for the account's mirror user. `mail_owner` says
    whether the owner is told by mail. Raises `Invalid` with every fault."""
    user_id = owner.id
    if key_type in env.foreign and env.mirror is not None:
        user_id = (await mirror_user(env, owner, by)).id
        by = await mirrored(env.mirror, by)
        env = env.mirror
    new = NewKey(name=name, type=key_type, scopes=scopes, networks=networks, expires_at=expires_at)
    return await create_key(env, user_id, new, by, mail_owner=mail_owner)


async def has_second_factor(env: Environment, user_id: int) -> bool:
    """Whether the user signs in with a second factor."""
    return bool(await env[FactorStore].of_user(user_id))


def permit_account(caller: Principal, user_id: int = 0) -> None:
    """Raises `PermissionDenied` if the caller may not read this user's account."""
    if caller.user_id != user_id and "admin" not in caller.scopes:
        raise PermissionDenied("Others' accounts need the scope admin.", scope="admin")


def plan_faults(env: Environment, values: Mapping[str, Any]) -> list[Fault]:
    """The faults of a plan that the settings do not have."""
    plans, plan = env.settings.plans, values.get("plan")
    return (
        []
        if plan is None or plan in plans
        else [Fault("plan", f"must be one of {', '.join(plans)}")]
    )


async def change_account(
    env: Environment,
    user_id: int,
    values: Mapping[str, Any],
    by: Author,
    check: Check = lambda _: None,
) -> User:
    """Changes an account's `role`, `plan`, `external_id`, `metadata` and whether it is `suspended`.

    Suspending is told by mail: sessions, logins and consents end for good; API keys fail until the
    account is resumed. Raises `NotFound`, `PreconditionFailed`, `Invalid` for an unknown plan,
    `Duplicate` for the `external_id` of another account, `PermissionDenied` for the caller's own
    plan or suspension, and `Conflict` for the last admin and for a mirror. The caller must have the
    scope `admin`.
    """
    if faults := plan_faults(env, values):
        raise invalid(*faults)
    changes = dict(values)
    suspended, metadata = changes.pop("suspended", None), changes.pop("metadata", None)

    async def work(change: Change) -> User:
        user = await locked_user(env, change, user_id)
        if user.account_id is not None:
            raise Conflict("This user mirrors a live account: change that account instead.")
        check(user)
        changed = msgspec.structs.replace(user, **changes)
        if metadata is not None and metadata != msgspec.json.decode(user.metadata):
            text = msgspec.json.encode(metadata).decode()
            changed = msgspec.structs.replace(changed, metadata=text)
        is_own = by.actor.user_id == user_id
        if is_own and changed.plan != user.plan:
            raise PermissionDenied("You cannot change your own plan; ask another admin.")
        suspends = suspended and user.suspended_at is None
        if user.role == "admin" and (suspends or changed.role != "admin"):
            await keep_an_admin(env, change, user.id)
        if suspends and is_own:
            raise PermissionDenied("You cannot suspend yourself; ask another admin.")
        if changed != user:
            before, user = user, await store_change(env, change, user, changed)
            await tell_changed(env, change, before, user)
        if suspends:
            user = await set_suspended(env, change, user, change.now)
            await notify(env, change, user, "suspended")
        elif suspended is False and user.suspended_at is not None:
            user = await set_suspended(env, change, user, None)
        return user

    try:
        user = await env.change(by, work)
    except UniqueViolation as error:
        raise Duplicate(_TAKEN, [Fault("external_id", _TAKEN)]) from error
    await try_to_update_mirror(env, user_id)
    return user


async def suspend(env: Environment, user_id: int, by: Author) -> User:
    """Suspends an account, if it is not suspended yet. Raises what `change_account` raises."""
    return await change_account(env, user_id, {"suspended": True}, by)


async def resume(env: Environment, user_id: int, by: Author) -> User:
    """Ends an account's suspension, if there is one. Raises what `change_account` raises."""
    return await change_account(env, user_id, {"suspended": False}, by)


QUOTA_PERIOD = 1.0


async def tell_quotas(env: Environment) -> None:
    """Stores the events that are due, each once in all processes. Raises `Unavailable`; then the
    next run goes on."""
    waiting = env[Quotas].waiting
    for user_id, reached in list(waiting.items()):
        await _tell(env, user_id, reached)
        if waiting.get(user_id) == reached:  # it may have reached more meanwhile
            del waiting[user_id]


async def _tell(env: Environment, user_id: int, reached: Reached) -> None:
    month, percent = reached

    async def work(change: Change) -> None:
        user = await change.lock(env[Users], user_id)
        if user is None or reached <= (published := (user.quota_month, user.quota_percent)):
            return
        user = msgspec.structs.replace(user, quota_month=month, quota_percent=percent)
        await env[Users].update(change.tx, user)
        for one in QUOTA_PERCENTS:
            if one <= percent and (month, one) > published:
                change.note(QuotaReached(user, one))

    await env.change(SYSTEM, work)
