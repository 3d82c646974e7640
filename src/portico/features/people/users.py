"""Use cases of users."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from portico.change import Change, ended
from portico.core.audit import Author
from portico.core.caller import Principal
from portico.core.errors import (
    Conflict,
    Duplicate,
    Fault,
    Invalid,
    NotFound,
    PermissionDenied,
    invalid,
)
from portico.core.ids import whole_number
from portico.core.users import User, same_mailbox, typed_email
from portico.data.database import UniqueViolation
from portico.environment import Environment
from portico.features.access.backchannel import announce_ends
from portico.features.events.audit import Audit
from portico.features.mail.letters import notify
from portico.features.people.endings import end_prepared, end_sign_ins
from portico.features.people.guard import Claim, password_is_right
from portico.features.people.mirrors import try_to_update_mirror
from portico.features.people.passwords import Passwords
from portico.features.people.rules import (
    InvitationRevoked,
    PasswordChanged,
    PasswordRefused,
    UserChanged,
    UserCreated,
    UserDeleted,
)
from portico.features.people.storage import EmailTokens, Invitations, Users

Check = Callable[[User], None]
"""Checks `If-Match` against the stored user. Raises `PreconditionFailed`."""

_TAKEN = "A user with this e-mail exists already."
_TAKEN_MEANWHILE = (
    "There already is an account with this e-mail: sign in to it, or reset its password."
)


def _missing(user_id: int) -> NotFound:
    """The error for an id that no user has."""
    return NotFound(f"There is no user {user_id}.")


def taken() -> Duplicate:
    """The error for an e-mail that another user has."""
    return Duplicate(_TAKEN, [Fault("email", _TAKEN)])


def taken_meanwhile() -> Duplicate:
    """The error for a link to an e-mail that another user has taken meanwhile. The link's page has
    no `email` field, so the fault names `token`."""
    return Duplicate(_TAKEN_MEANWHILE, [Fault("token", _TAKEN_MEANWHILE)])


async def locked_user(env: Environment, change: Change, user_id: int) -> User:
    """The user, locked until the change ends. Raises `NotFound`."""
    user = await change.lock(env[Users], user_id)
    if user is None:
        raise _missing(user_id)
    return user


async def read_user(env: Environment, user_id: int) -> User:
    """The user. Raises `NotFound`."""
    user = await env[Users].get(user_id)
    if user is None:
        raise _missing(user_id)
    return user


def permit_role(caller: Principal, role: str) -> None:
    """Raises `PermissionDenied` if the caller may not create a user with this role."""
    if role == "admin" and "admin" not in caller.scopes:
        raise admins_only()


async def create_user(
    env: Environment,
    *,
    name: str,
    email: str,
    password: str,
    role: str,
    plan: str = "free",
    by: Author,
) -> User:
    """Creates a user. Raises `Duplicate` if the e-mail is taken, and `PermissionDenied` if an admin
    is created without the scope `admin`."""
    if by.principal is not None:
        permit_role(by.principal, role)
    if await env[Users].by_email(email):
        raise taken()  # before the hash, which costs a thousand times as much
    password_hash = await env[Passwords].hash(password)

    async def work(change: Change) -> User:
        user = User(
            id=0,
            name=name,
            email=email,
            role=role,
            plan=plan,
            password_hash=password_hash,
            created_at=change.now,
            updated_at=change.now,
        )
        user = await env[Users].insert(change.tx, user)
        change.note(UserCreated(user))
        return user

    try:
        return await env.change(by, work)
    except UniqueViolation as error:
        raise taken() from error


async def change_user(
    env: Environment,
    caller: Principal,
    user_id: int,
    values: dict[str, Any],
    check: Check,
    by: Author,
) -> User:
    """Changes a user's values on behalf of `caller`.

    Users may change their own name, avatar, preferences and, with `current_password`, password.
    A caller with `write:users` may change everything of everyone, except that (decisions §4, §7):
    their own e-mail and password need `current_password`; they cannot change their own role or
    plan; and changing an admin needs the scope `admin`. An OAuth client needs `write:users` for any
    change. The session that makes the request survives a new password.
    Raises `NotFound`, `PermissionDenied`, `PreconditionFailed`, `Duplicate`, `Conflict` for the
    last admin and for a mirror's e-mail, role, plan and password, `Invalid` for a wrong
    `current_password`, and `RateLimited` after too many wrong ones.
    """
    own = caller.user_id == user_id
    permit(caller, user_id)
    _permit_fields(caller, values)
    changes = dict(values)
    changes.update(changes.pop("preferences", {}))
    current = changes.pop("current_password", None)
    found = await env[Users].get(user_id)
    if found is None:
        raise ended(caller) if own else _missing(user_id)
    proven = None
    if own and _needs_proof(found, changes):
        proven = await prove_password(env, found, current, by)
    if "password" in changes:
        changes["password_hash"] = await env[Passwords].hash(changes.pop("password"))

    async def work(change: Change) -> User:
        user = await change.lock(env[Users], user_id)
        if own:
            await change.check()  # a new password may end the caller's own login
        if user is None:
            raise _missing(user_id)
        unproven = not proven or user.password_hash != proven
        if own and unproven and _needs_proof(user, changes):
            raise _wrong_password("The password was changed meanwhile.")
        check(user)
        await _permit_change(env, change, caller, user, changes)
        changed = msgspec.structs.replace(user, **changes)
        if changed == user:
            return user
        session = caller.credential_id if own and caller.credential == "session" else 0
        after = await store_change(env, change, user, changed, but_session=session)
        await tell_changed(env, change, user, after)
        return after

    try:
        changed = await env.change(by, work)
    except UniqueViolation as error:
        raise taken() from error
    await try_to_update_mirror(env, changed.id)
    return changed


async def tell_changed(env: Environment, change: Change, before: User, after: User) -> None:
    """Tells a user by mail about a new e-mail (at both addresses), a new password, a new role, or
    mails that were switched off."""
    by = change.by
    if not same_mailbox(before.email, after.email):
        for address in (before.email, after.email):
            await notify(env, change, after, "email-changed", to=address, by=by, email=after.email)
    if before.password_hash != after.password_hash:
        page = f"{env.addresses.dashboard}/forgot"
        await notify(env, change, after, "new-password", by=by, page=page)
    if before.role != after.role and after.account_id is None:  # a mirror's account is told instead
        await notify(env, change, after, "new-role", by=by, role=after.role, before=before.role)
    if not set(before.mails) <= set(after.mails):
        page = f"{env.addresses.dashboard}/profile"
        await notify(env, change, after, "mails-off", by=by, page=page)


async def store_change(
    env: Environment,
    change: Change,
    before: User,
    after: User,
    *,
    but_session: int = 0,
    email_verified_at: int | None = None,
) -> User:
    """Stores a changed user, notes what changed, and returns the user as stored.

    A new password ends every session of the user except `but_session`, and all logins and consents.
    A new e-mail counts as unverified unless `email_verified_at` is given. Links sent to the old
    e-mail, and invitations of it, become invalid, as does what an admin prepared who is none any
    more. Raises `UniqueViolation` if the e-mail is taken.
    """
    after = msgspec.structs.replace(after, updated_at=change.now)
    if not same_mailbox(after.email, before.email):
        after = msgspec.structs.replace(after, email_verified_at=None)
        await env[EmailTokens].delete_of_user(change.tx, after.id)
        # Otherwise the old invitation would let the user back in after being deleted.
        await _uninvite(env, change, before.email)
    if email_verified_at is not None:
        after = msgspec.structs.replace(after, email_verified_at=email_verified_at)
    await env[Users].update(change.tx, after)
    changed = UserChanged(after, before)
    if changed.fields:
        change.note(changed)
    if before.role == "admin" and after.role != "admin":
        await end_prepared(env, change, after.id)
    if after.password_hash != before.password_hash:
        await end_sign_ins(env, change, after.id, but_session=but_session)
        for purpose in ("reset", "new-email"):
            await env[EmailTokens].delete_of_user(change.tx, after.id, purpose=purpose)
        change.note(PasswordChanged(after))
    return after


async def _uninvite(env: Environment, change: Change, email: str) -> None:
    """Deletes the invitation of this e-mail, so that it cannot be used to come back."""
    found = await env[Invitations].take_of_email(change.tx, email)
    if found is not None and not found.signed_up:
        change.note(InvitationRevoked(found))


async def delete_user(env: Environment, user_id: int, check: Check, by: Author) -> None:
    """Deletes a user and everything that belongs to them. Raises `NotFound`, `PreconditionFailed`,
    `PermissionDenied` for an admin without the scope `admin`, and `Conflict` for the last admin and
    for a mirror."""

    async def work(change: Change) -> None:
        user = await locked_user(env, change, user_id)
        check(user)
        if user.account_id is not None:
            raise Conflict("This user mirrors a live account: delete that account instead.")
        if user.role == "admin":
            if not by.may("admin"):
                raise admins_only()
            await keep_an_admin(env, change, user_id)
        await change.check()  # callers who delete themselves have no credential afterwards
        await env.release(change, "users", user_id)
        await end_prepared(env, change, user_id)
        await announce_ends(env, change, user_id)
        await env[Users].delete(change.tx, user_id)
        await _uninvite(env, change, user.email)
        change.note(UserDeleted(user))

    await env.change(by, work)
    await try_to_update_mirror(env, user_id)


_OWN_FIELDS = frozenset({"name", "avatar_url", "preferences", "password", "current_password"})


def permit(caller: Principal, user_id: int) -> None:
    """Raises `PermissionDenied` if the caller's credential allows no change of this user."""
    own = caller.user_id == user_id
    if "write:users" not in caller.scopes:
        if not own:
            raise PermissionDenied(
                "Changing other users needs the scope write:users.", scope="write:users"
            )
        if caller.narrow:
            # A user who gave an application some scopes did not give it their profile.
            raise PermissionDenied(
                "A credential with restricted scopes needs write:users to change its own user.",
                scope="write:users",
            )
    if own and caller.role == "admin" and "admin" not in caller.scopes:
        raise admins_only()


def _permit_fields(caller: Principal, values: dict[str, Any]) -> None:
    if "write:users" in caller.scopes:
        return
    if beyond := sorted(values.keys() - _OWN_FIELDS):
        raise PermissionDenied(
            f"Changing {', '.join(beyond)} needs the scope write:users.", scope="write:users"
        )


async def _permit_change(
    env: Environment, change: Change, caller: Principal, user: User, changes: dict[str, Any]
) -> None:
    """Raises if the user's present or new role, or being a mirror, forbids the change."""
    if "admin" in (user.role, changes.get("role")) and "admin" not in caller.scopes:
        raise admins_only()
    new_role = changes.get("role", user.role) != user.role
    new_plan = changes.get("plan", user.plan) != user.plan
    if new_role and user.role == "admin":
        await keep_an_admin(env, change, user.id)
    if caller.user_id == user.id and (new_role or new_plan):
        raise PermissionDenied("You cannot change your own role or plan; ask another admin.")
    new_email = changes.get("email", user.email) != user.email
    new_password = "password_hash" in changes
    if (new_role or new_plan or new_email or new_password) and user.account_id is not None:
        raise _mirrored()


def _needs_proof(user: User, changes: Mapping[str, Any]) -> bool:
    """Whether a user needs their current password for these changes to their own account."""
    return bool({"password", "password_hash"} & changes.keys()) or (
        changes.get("email", user.email) != user.email
    )


async def proof_faults(
    env: Environment, caller: Principal, user_id: int, values: Mapping[str, Any]
) -> list[Fault]:
    """The faults of changes to the caller's own user that lack `current_password`. Whether it is
    right is not tried: that would count."""
    if caller.user_id == user_id:
        user = await env[Users].get(user_id)
        if user is not None and user.account_id is None and _needs_proof(user, values):
            return _missing_proof(env, user, values.get("current_password"))
    return []


def _missing_proof(env: Environment, user: User, current: str | None) -> list[Fault]:
    if user.password_hash is None:
        page = f"{env.addresses.dashboard}/forgot"
        message = f"Your account has no password: choose one first, at {page}."
    elif current is None:
        message = "Send the current password too: changing the e-mail or password needs it."
    else:
        return []
    return [Fault("current_password", message)]


async def prove_password(env: Environment, user: User, current: str | None, by: Author) -> str:
    """The hash of a user's password, if `current` is that password. Raises `Invalid` if it is not
    or the user has none, `Conflict` for a mirror user, whose password is its account's, and
    `RateLimited` after too many wrong ones."""
    stored = user.password_hash
    if user.account_id is not None:
        raise _mirrored()
    if stored is None or current is None:
        raise invalid(*_missing_proof(env, user, current))
    claim = Claim(user.email, user.id, by.address)

    note = partial(env.change.note, by, PasswordRefused(user))
    if not await password_is_right(env, claim, current, stored, note):
        raise _wrong_password("This is not the current password.")
    return stored


def _mirrored() -> Conflict:
    return Conflict(
        "This user mirrors a live account and has its e-mail, role, plan and password: change them"
        " on that account."
    )


def _wrong_password(message: str) -> Invalid:
    return invalid(Fault("current_password", message))


def admins_only() -> PermissionDenied:
    """The error for changing an admin without the scope `admin`."""
    return PermissionDenied(
        "Creating, changing and deleting admins needs the scope admin, which this credential does"
        " not have.",
        scope="admin",
    )


async def keep_an_admin(env: Environment, change: Change, user_id: int) -> None:
    """Raises `Conflict` if this user, an admin, is the only one."""
    if not await env[Users].other_admins(change.tx, user_id):
        raise Conflict("This is the last admin; make another user an admin first.")


async def named_user(env: Environment, who: str) -> int | None:
    """The id that `who` is, or that of the user with the e-mail `who`; None if nobody has it."""
    if (number := whole_number(who)) is not None:
        return number
    user = await env[Users].by_email(typed_email(who))
    return user.id if user else None


async def accounts_named(env: Environment, who: str) -> frozenset[int]:
    """The ids of all users who have or had this e-mail, including deleted ones, or the id itself.
    Empty if nobody ever had it."""
    user_id = await named_user(env, who)
    now = frozenset() if user_id is None else frozenset({user_id})
    email = typed_email(who)
    return now | await env[Audit].had_email(email) if "@" in email else now
