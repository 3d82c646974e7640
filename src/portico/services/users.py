"""Use cases of users."""

from collections.abc import Callable
from typing import Any

import msgspec

from portico.domain.caller import Principal
from portico.domain.errors import (
    Conflict,
    Duplicate,
    Fault,
    Invalid,
    NotFound,
    PermissionDenied,
)
from portico.domain.users import User
from portico.services.environment import Environment
from portico.services.mirrors import follow
from portico.storage.database import Transaction, UniqueViolation

Check = Callable[[User], None]
"""Raises `PreconditionFailed` where the caller expected the user to be another."""

_TAKEN = "A user with this e-mail exists already."


def _missing(user_id: int) -> NotFound:
    return NotFound(f"There is no user {user_id}.")


def _taken() -> Duplicate:
    return Duplicate(_TAKEN, [Fault("email", _TAKEN)])


async def read_user(env: Environment, user_id: int) -> User:
    """The user. Raises `NotFound`."""
    user = await env.users.get(user_id)
    if user is None:
        raise _missing(user_id)
    return user


async def create_user(
    env: Environment,
    *,
    name: str,
    email: str,
    password: str,
    role: str,
    plan: str = "free",
    account_id: int | None = None,
) -> User:
    """Stores a new user. Raises `Duplicate` when the e-mail is taken."""
    if await env.users.by_email(email):
        raise _taken()  # before the hash, which costs a thousand times as much
    password_hash = await env.passwords.hash(password)
    now = env.clock()
    user = User(
        id=0,
        name=name,
        email=email,
        role=role,
        plan=plan,
        avatar_url=None,
        theme="system",
        language="en",
        notifications=True,
        account_id=account_id,
        password_hash=password_hash,
        last_login_at=None,
        created_at=now,
        updated_at=now,
    )
    try:
        async with env.db.transaction() as tx:
            return await env.users.insert(tx, user)
    except UniqueViolation as error:
        raise _taken() from error


async def change_user(
    env: Environment, caller: Principal, user_id: int, values: dict[str, Any], check: Check
) -> User:
    """Changes a user's values on behalf of `caller`.

    Users may change their own name, avatar, preferences and, with `current_password`, password;
    whoever has `write:users` everything of everyone, their own role excepted (decisions §4, §7).
    Raises `NotFound`, `PermissionDenied`, `PreconditionFailed`, `Duplicate`, `Conflict` for the
    last admin, and `Invalid` for a wrong `current_password`.
    """
    own = caller.user_id == user_id
    _permit(caller, values, own=own)
    changes = dict(values)
    changes.update(changes.pop("preferences", {}))
    current = changes.pop("current_password", None)
    if "password" in changes:
        if own:
            await _check_current(env, user_id, current)
        changes["password_hash"] = await env.passwords.hash(changes.pop("password"))
    try:
        async with env.db.transaction() as tx:
            user = await env.users.get(user_id, tx)
            if user is None:
                raise _missing(user_id)
            check(user)
            if changes.get("role", user.role) != user.role:
                if user.role == "admin":
                    await _keep_an_admin(env, tx, user_id)
                if own:
                    raise PermissionDenied("Nobody changes their own role; ask another admin.")
            changed = msgspec.structs.replace(user, **changes)
            if changed == user:
                return user
            changed = msgspec.structs.replace(changed, updated_at=env.clock())
            await env.users.update(tx, changed)
    except UniqueViolation as error:
        raise _taken() from error
    await follow(env, changed.id)
    return changed


async def delete_user(env: Environment, user_id: int, check: Check) -> None:
    """Removes a user with all keys. Raises `NotFound`, `PreconditionFailed`, and `Conflict` for the
    last admin."""
    async with env.db.transaction() as tx:
        user = await env.users.get(user_id, tx)
        if user is None:
            raise _missing(user_id)
        check(user)
        if user.role == "admin":
            await _keep_an_admin(env, tx, user_id)
        await env.users.delete(tx, user_id)
    await follow(env, user_id)


_OWN_FIELDS = frozenset({"name", "avatar_url", "preferences", "password", "current_password"})


def _permit(caller: Principal, values: dict[str, Any], *, own: bool) -> None:
    if "write:users" in caller.scopes:
        return
    if not own:
        raise PermissionDenied("Changing other users needs the scope write:users.")
    if beyond := sorted(values.keys() - _OWN_FIELDS):
        raise PermissionDenied(f"Changing {', '.join(beyond)} needs the scope write:users.")


async def _check_current(env: Environment, user_id: int, current: str | None) -> None:
    user = await env.users.get(user_id)
    if user is None:
        raise _missing(user_id)
    if current is None:
        message = "Send the current password together with a new one."
    elif user.password_hash and await env.passwords.verify(current, user.password_hash):
        return
    else:
        message = "This is not the current password."
    raise Invalid(
        "Some fields have values that are not allowed.", [Fault("current_password", message)]
    )


async def _keep_an_admin(env: Environment, tx: Transaction, user_id: int) -> None:
    if not await env.users.other_admins(tx, user_id):
        raise Conflict("This is the last admin; make another user an admin first.")
