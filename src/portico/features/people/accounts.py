"""Use cases of operators: roles and plans of accounts, and keys for either environment."""

from base64 import urlsafe_b64encode
from collections.abc import Sequence

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import Conflict, NotFound, PermissionDenied
from portico.core.secrets import Random
from portico.core.users import User, new_user, typed_email
from portico.data.database import UniqueViolation
from portico.environment import Environment
from portico.features.access.api_keys import CreatedKey, add_key, create_key
from portico.features.access.rules import NewKey
from portico.features.mail.letters import notify
from portico.features.people.endings import set_suspended
from portico.features.people.mirrors import mirror_user, mirrored, try_to_update_mirror
from portico.features.people.passwords import Passwords
from portico.features.people.rules import UserCreated
from portico.features.people.storage import Users
from portico.features.people.users import (
    admins_only,
    keep_an_admin,
    locked_user,
    store_change,
    taken,
    tell_changed,
)


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


async def set_plan(env: Environment, email: str, plan: str, by: Author) -> User:
    """Sets an account's plan. Raises `NotFound` for an unknown account or plan, and `Conflict` for
    a mirror user, whose plan is its account's."""
    if plan not in env.settings.plans:
        raise NotFound(
            f"There is no plan {plan}; there are {', '.join(sorted(env.settings.plans))}."
        )
    return await _set(env, email, by, plan=plan)


async def set_role(env: Environment, email: str, role: str, by: Author) -> User:
    """Sets an account's role. Raises `NotFound`, and `Conflict` for the last admin and for a mirror
    user, whose role is its account's."""
    return await _set(env, email, by, role=role)


async def _set(env: Environment, email: str, by: Author, **values: str) -> User:
    found = await account(env, email)

    async def work(change: Change) -> User:
        user = await change.lock(env[Users], found.id)
        if user is None:
            raise NotFound(f"There is no user with the e-mail {email}.")
        if user.account_id is not None:
            raise Conflict("This user mirrors a live account; change that account instead.")
        changed = msgspec.structs.replace(user, **values)
        if changed == user:
            return user
        if user.role == "admin" and changed.role != "admin":
            await keep_an_admin(env, change, user.id)
        after = await store_change(env, change, user, changed)
        await tell_changed(env, change, user, after)
        return after

    user = await env.change(by, work)
    await try_to_update_mirror(env, user.id)
    return user


async def create_admin(
    env: Environment, *, name: str, email: str, password: str, key_name: str, by: Author
) -> tuple[User, CreatedKey]:
    """Creates an admin on the plan Enterprise and a live key, in one change and without a mail.
    Raises `Duplicate` if the e-mail is taken."""
    password_hash = await env[Passwords].hash(password)

    async def work(change: Change) -> tuple[User, CreatedKey]:
        user = new_user(
            name=name,
            email=email,
            role="admin",
            plan="enterprise",
            password_hash=password_hash,
            now=change.now,
        )
        user = await env[Users].insert(change.tx, user)
        change.note(UserCreated(user))
        new = NewKey(name=key_name, type="live", scopes=None, networks=None, expires_at=None)
        return user, await add_key(env, change, user.id, new, told=False)

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
    told: bool = True,
) -> CreatedKey:
    """Creates a key with the values of a `NewKey` for an account of `env`. A key type that belongs
    to the mirroring environment is created there, for the account's mirror user. `told` says
    whether the owner is told by mail. Raises `Invalid` with every fault."""
    user_id = owner.id
    if key_type in env.foreign and env.mirror is not None:
        user_id = (await mirror_user(env, owner, by)).id
        by = await mirrored(env.mirror, by)
        env = env.mirror
    new = NewKey(name=name, type=key_type, scopes=scopes, networks=networks, expires_at=expires_at)
    return await create_key(env, user_id, new, by, told=told)


async def suspend(env: Environment, user_id: int, by: Author) -> User:
    """Suspends an account and tells it by mail. Its sessions, logins and consents end for good; its
    API keys fail until it is resumed. An account that is already suspended stays as it is.

    Raises `NotFound`, `Conflict` for the last admin and for a mirror, and `PermissionDenied` for
    the caller's own account, and for an admin without the scope `admin`.
    """
    if by.actor.user_id == user_id:
        raise PermissionDenied("You cannot suspend yourself; ask another admin.")

    async def work(change: Change) -> User:
        user = await _locked(env, change, user_id)
        if user.suspended_at is not None:
            return user
        if user.role == "admin":
            await keep_an_admin(env, change, user_id)
        suspended = await set_suspended(env, change, user, change.now)
        await notify(env, change, suspended, "suspended")
        return suspended

    user = await env.change(by, work)
    await try_to_update_mirror(env, user_id)
    return user


async def resume(env: Environment, user_id: int, by: Author) -> User:
    """Ends an account's suspension: its API keys work again. Raises what `suspend` raises, except
    for the caller's own account and the last admin."""

    async def work(change: Change) -> User:
        user = await _locked(env, change, user_id)
        if user.suspended_at is None:
            return user
        return await set_suspended(env, change, user, None)

    user = await env.change(by, work)
    await try_to_update_mirror(env, user_id)
    return user


async def _locked(env: Environment, change: Change, user_id: int) -> User:
    user = await locked_user(env, change, user_id)
    if user.account_id is not None:
        raise Conflict("This user mirrors a live account: suspend or resume that account instead.")
    if user.role == "admin" and not change.by.may("admin"):
        raise admins_only()
    return user
