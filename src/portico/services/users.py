"""Use cases of users."""

from collections.abc import Callable
from typing import Any

import msgspec

from portico.domain.audit import Actor
from portico.domain.caller import Principal
from portico.domain.errors import (
    Conflict,
    Duplicate,
    Fault,
    Invalid,
    NotFound,
    PermissionDenied,
)
from portico.domain.users import User, email_key
from portico.services.environment import Environment
from portico.services.mirrors import follow
from portico.storage.database import Keep, Transaction, UniqueViolation

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
    by: Actor,
    keep: Keep[User] | None = None,
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
            user = await env.users.insert(tx, user)
            facts = {"email": email, "role": role, "plan": plan}
            await env.audit.record(
                tx, by, now, "user.created", target="user", target_id=user.id, details=facts
            )
            if keep is not None:
                await keep(tx, user)
    except UniqueViolation as error:
        raise _taken() from error
    return user


async def change_user(
    env: Environment,
    caller: Principal,
    user_id: int,
    values: dict[str, Any],
    check: Check,
    by: Actor,
) -> User:
    """Changes a user's values on behalf of `caller`.

    Users may change their own name, avatar, preferences and, with `current_password`, password;
    whoever has `write:users` everything of everyone, their own role excepted (decisions §4, §7).
    An OAuth client changes nobody without that scope.
    The session that makes the request outlives a change of its user's password.
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
            session = caller.credential_id if own and caller.credential == "session" else 0
            changed = await store_change(env, tx, user, changed, by, but_session=session)
    except UniqueViolation as error:
        raise _taken() from error
    await follow(env, changed.id)
    return changed


async def store_change(
    env: Environment,
    tx: Transaction,
    before: User,
    after: User,
    by: Actor,
    *,
    but_session: int = 0,
) -> User:
    """Stores a user whose values have changed, and notes which; returns it as it is stored.

    A new password ends every session of the user but `but_session`, and all that signing in and
    consenting have issued. A new e-mail is not verified, and what was sent to the old one opens
    nothing. Raises `UniqueViolation` when the e-mail is taken.
    """
    now = env.clock()
    after = msgspec.structs.replace(after, updated_at=now)
    if email_key(after.email) != email_key(before.email):
        after = msgspec.structs.replace(after, email_verified_at=None)
        for purpose in ("reset", "verify"):
            await env.email_tokens.delete_of_user(tx, after.id, purpose=purpose)
    await env.users.update(tx, after)
    if fields := [name for name in _NOTED if getattr(after, name) != getattr(before, name)]:
        details: dict[str, Any] = {"fields": fields}
        for name in ("role", "plan"):
            if name in fields:
                details[name] = {"from": getattr(before, name), "to": getattr(after, name)}
        await env.audit.record(
            tx, by, now, "user.changed", target="user", target_id=after.id, details=details
        )
    if after.password_hash != before.password_hash:
        await env.sessions.delete_of_user(tx, after.id, but=but_session)
        await env.grants.revoke_of_user(tx, after.id, now)
        await env.email_tokens.delete_of_user(tx, after.id, purpose="reset")
        await env.audit.record(tx, by, now, "password.changed", target="user", target_id=after.id)
    return after


async def delete_user(env: Environment, user_id: int, check: Check, by: Actor) -> None:
    """Removes a user with all that is theirs. Raises `NotFound`, `PreconditionFailed`, and
    `Conflict` for the last admin."""
    async with env.db.transaction() as tx:
        user = await env.users.get(user_id, tx)
        if user is None:
            raise _missing(user_id)
        check(user)
        if user.role == "admin":
            await _keep_an_admin(env, tx, user_id)
        await env.users.delete(tx, user_id)
        facts = {"email": user.email, "role": user.role}
        await env.audit.record(
            tx, by, env.clock(), "user.deleted", target="user", target_id=user_id, details=facts
        )
    await follow(env, user_id)


_NOTED = ("name", "email", "role", "plan", "avatar_url", "theme", "language", "notifications")
_OWN_FIELDS = frozenset({"name", "avatar_url", "preferences", "password", "current_password"})


def _permit(caller: Principal, values: dict[str, Any], *, own: bool) -> None:
    if "write:users" in caller.scopes:
        return
    if not own:
        raise PermissionDenied("Changing other users needs the scope write:users.")
    if caller.credential == "oauth":
        # Whoever allowed an application to see products did not mean their own profile.
        raise PermissionDenied("An application needs the scope write:users to change its user.")
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
