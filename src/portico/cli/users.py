"""`portico users`: manages accounts."""

import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from getpass import getpass
from typing import Any, TypeVar

from portico.cli.listing import Form, print_list
from portico.cli.output import (
    CommandError,
    answer,
    command_line,
    mention,
    minute,
    plain,
    table,
)
from portico.cli.prepared import in_environment
from portico.contract.envelope import optional_timestamp, timestamp
from portico.contract.reading import Faults, read_object
from portico.contract.users import CreateUser
from portico.domain.audit import OPERATOR, By
from portico.domain.users import User
from portico.services.accounts import account, random_password, set_plan, set_role
from portico.services.api_keys import MadeKey, keys_for_others
from portico.services.environment import Environment
from portico.services.invitations import invite
from portico.services.recovery import give_reset
from portico.services.second_factor import reset_factors
from portico.services.suspension import resume, suspend
from portico.services.users import create_user, delete_user, read_user
from portico.settings import Settings

MAX_PASSWORD_BYTES = 4096

T = TypeVar("T")
Act = Callable[[Environment, int, By], Awaitable[T]]
"""What to do with the account of this id."""


def run_create(settings: Settings, chosen: Namespace) -> None:
    _check_plan(settings, chosen.plan)
    given = _given_password() if chosen.password_stdin else None
    password = random_password(os.urandom) if given is None else given
    values = _checked(
        {"email": chosen.email, "name": chosen.name, "role": chosen.role, "password": password}
    )
    user = in_environment(
        settings,
        chosen,
        lambda env: create_user(env, **values, plan=chosen.plan, by=OPERATOR),
    )
    facts: dict[str, Any] = {"id": user.id, "email": user.email}
    lost = None
    text = f"User {user.id} is created: {plain(user.email)}, {user.role}, plan {user.plan}."
    if given is None:
        facts["password"] = password
        text += f"\n\n  password   {password}\n\nStore it now; it is not shown again."
        reset = command_line(f"users reset-password {plain(user.email)}", sandbox=chosen.sandbox)
        lost = f"User {user.id} was created: {reset} prints a link to set a password."
    answer(facts, text, as_json=chosen.json, lost=lost)


def _given_password() -> str:
    if sys.stdin.isatty():
        return _typed_password()
    raw = sys.stdin.buffer.read(MAX_PASSWORD_BYTES)
    try:
        return raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise CommandError("the password on standard input must be UTF-8", 2) from None


def _typed_password() -> str:
    try:
        return getpass("Password: ")
    except (EOFError, UnicodeDecodeError):
        mention("")  # ends the line of the prompt
        raise CommandError("no password was typed, or not as text", 2) from None


def _checked(values: dict[str, str]) -> dict[str, str]:
    """The values, read as POST /users reads them. Raises `CommandError` with every fault."""
    faults = Faults()
    read: dict[str, str] = read_object(CreateUser, values, "", faults)
    if found := [*faults.unreadable, *faults.broken]:
        faults_text = (
            f"{'the password' if fault.field == 'password' else f'--{fault.field}'} {fault.message}"
            for fault in found
        )
        raise CommandError("; ".join(faults_text), 2)
    return read


def run_set_plan(settings: Settings, chosen: Namespace) -> None:
    _check_plan(settings, chosen.plan)
    user = in_environment(
        settings, chosen, lambda env: set_plan(env, chosen.email, chosen.plan, OPERATOR)
    )
    answer(
        {"id": user.id, "email": user.email, "plan": user.plan},
        f"{plain(user.email)} now has the plan {user.plan}.",
        as_json=chosen.json,
    )


def run_suspend(settings: Settings, chosen: Namespace) -> None:
    user, keys = _on_account(settings, chosen, _naming_keys(suspend))
    text = f"{plain(user.email)} is suspended and has lost all access.{_naming(keys)}"
    facts = {"id": user.id, "email": user.email, "suspended": True, **_keys_for_others(keys)}
    answer(facts, text, as_json=chosen.json)


def run_resume(settings: Settings, chosen: Namespace) -> None:
    user = _on_account(settings, chosen, resume)
    text = f"{plain(user.email)} is no longer suspended. Its API keys work again."
    answer({"id": user.id, "email": user.email, "suspended": False}, text, as_json=chosen.json)


def run_reset_second_factor(settings: Settings, chosen: Namespace) -> None:
    user = _on_account(settings, chosen, reset_factors)
    text = f"{plain(user.email)} no longer has a second factor."
    if user.password_hash is None:
        text += " It has no password either."
    answer({"id": user.id, "email": user.email}, text, as_json=chosen.json)


def run_invite(settings: Settings, chosen: Namespace) -> None:
    _check_plan(settings, chosen.plan)
    made = in_environment(
        settings,
        chosen,
        lambda env: invite(
            env,
            email=chosen.email,
            name=chosen.name or "",
            role=chosen.role,
            plan=chosen.plan,
            handed_over=True,
            by=OPERATOR,
        ),
    )
    its = made.invitation
    facts = {
        "id": its.id,
        "email": its.email,
        "role": its.role,
        "link": made.link,
        "expires_at": timestamp(its.expires_at),
    }
    text = (
        f"{plain(its.email)} is invited, with the role {its.role}:\n\n  {made.link}\n\n"
        f"The link works until {minute(its.expires_at)} and only once. It is not shown again."
    )
    lost = f"Invite {plain(its.email)} again: a new link replaces it."
    answer(facts, text, as_json=chosen.json, lost=lost)


def run_set_role(settings: Settings, chosen: Namespace) -> None:
    user = in_environment(
        settings, chosen, lambda env: set_role(env, chosen.email, chosen.role, OPERATOR)
    )
    answer(
        {"id": user.id, "email": user.email, "role": user.role},
        f"{plain(user.email)} now has the role {user.role}.",
        as_json=chosen.json,
    )


def run_reset_password(settings: Settings, chosen: Namespace) -> None:
    given = _on_account(settings, chosen, give_reset)
    facts = {
        "email": given.user.email,
        "link": given.link,
        "expires_at": timestamp(given.expires_at),
    }
    text = (
        f"{plain(given.user.email)} can choose a new password with this link:\n\n"
        f"  {given.link}\n\n"
        f"The link works until {minute(given.expires_at)} and only once. It is not shown again."
    )
    answer(facts, text, as_json=chosen.json, lost="Run it again: a new link replaces it.")


def run_delete(settings: Settings, chosen: Namespace) -> None:
    if not chosen.yes:
        raise CommandError("deleting a user cannot be undone: add --yes to confirm", 2)
    user, keys = _on_account(settings, chosen, _naming_keys(_delete))
    text = f"{plain(user.email)} is deleted, with its API keys, sessions and grants.{_naming(keys)}"
    facts = {"id": user.id, "email": user.email, **_keys_for_others(keys)}
    answer(facts, text, as_json=chosen.json)


async def _delete(env: Environment, user_id: int, by: By) -> User:
    user = await read_user(env, user_id)
    await delete_user(env, user_id, lambda _user: None, by)
    return user


def _naming_keys(act: Act[User]) -> Act[tuple[User, list[MadeKey]]]:
    """What `act` does, and the keys that the account created for others, which still work."""

    async def work(env: Environment, user_id: int, by: By) -> tuple[User, list[MadeKey]]:
        mirror = None if env.mirror is None else await env.mirror.users.by_account(user_id)
        user = await act(env, user_id, by)
        return user, await keys_for_others(env, user_id, None if mirror is None else mirror.id)

    return work


def _keys_for_others(keys: Sequence[MadeKey]) -> dict[str, Any]:
    """The field of these keys; none without keys."""
    if not keys:
        return {}
    return {
        "keys_for_others": [
            {
                "environment": made.environment,
                "id": made.key.id,
                "name": made.key.name,
                "hint": made.key.hint,
                "owner": made.owner,
            }
            for made in keys
        ]
    }


def _naming(keys: Sequence[MadeKey]) -> str:
    """The end of a text, which names these keys; empty if there are none."""
    if not keys:
        return ""
    rows = [
        (
            command_line(f"keys revoke {made.key.id}", sandbox=made.environment == "sandbox"),
            made.key.hint,
            plain(made.key.name),
            plain(made.owner),
        )
        for made in keys
    ]
    return (
        "\n\nIt created API keys for others, may have kept them, and they still work:\n\n"
        + table([("TO REVOKE IT", "HINT", "NAME", "OWNER"), *rows])
    )


def run_list(settings: Settings, chosen: Namespace) -> None:
    print_list(settings, chosen, _LIST, lambda env: env.users.batches(chosen.role))


def _entry(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "email": user.email,
        "role": user.role,
        "plan": user.plan,
        "suspended": user.suspended_at is not None,
        "created_at": timestamp(user.created_at),
        "last_login_at": optional_timestamp(user.last_login_at),
    }


def _cells(user: User) -> Sequence[str]:
    return (
        str(user.id),
        plain(user.email),
        plain(user.name),
        user.role,
        user.plan,
        minute(user.created_at),
        minute(user.last_login_at) if user.last_login_at else "never",
        "active" if user.suspended_at is None else f"suspended {minute(user.suspended_at)}",
    )


_LIST = Form(
    _entry,
    ("ID", "E-MAIL", "NAME", "ROLE", "PLAN", "CREATED", "LAST SIGN-IN", "STATUS"),
    _cells,
    "There are no users.",
)


def run_show(settings: Settings, chosen: Namespace) -> None:
    facts = in_environment(settings, chosen, lambda env: _shown(env, chosen.email))
    width = max(map(len, facts))
    lines = (f"{name.ljust(width)}  {_words(value)}" for name, value in facts.items())
    answer(facts, "\n".join(lines), as_json=chosen.json)


def _words(value: object) -> str:
    if value is None:
        return "never"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(str(value))


async def _shown(env: Environment, email: str) -> dict[str, Any]:
    user, now = await account(env, email), env.clock()
    return {
        **_entry(user),
        "email_verified": user.email_verified_at is not None,
        "api_keys": await env.api_keys.count_usable(user.id, now),
        "sessions": await env.sessions.count(user.id, now),
        "grants": await env.grants.count(user.id, now),
    }


def _on_account(settings: Settings, chosen: Namespace, act: Act[T]) -> T:
    async def work(env: Environment) -> T:
        user = await account(env, chosen.email)
        return await act(env, user.id, OPERATOR)

    return in_environment(settings, chosen, work)


def _check_plan(settings: Settings, plan: str) -> None:
    """Raises `CommandError` if the settings have no such plan."""
    if plan not in settings.plans:
        raise CommandError(
            f"there is no plan {plain(plan)}; there are {', '.join(settings.plans)}", 2
        )
