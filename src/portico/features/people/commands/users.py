"""`portico users`: manages accounts."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Sequence
from getpass import getpass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from portico.cli.arguments import Commands, Suggested, add_sandbox, by_rule, meant, text
from portico.cli.lazy import lazy_imports
from portico.cli.listing import ListForm, print_list
from portico.cli.output import CommandError, answer, command_line, mention, minute, plain, table
from portico.core.words import ROLES

if TYPE_CHECKING:
    from portico.core.audit import Author
    from portico.core.users import User
    from portico.environment import Environment
    from portico.features.access.api_keys import MadeKey
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import prepared
    from portico.core import audit
    from portico.core import users as domain_users
    from portico.features.access import api_keys
    from portico.features.access import storage as access_storage
    from portico.features.people import accounts, invitations, recovery
    from portico.features.people import schemas as contract_users
    from portico.features.people import storage as people_storage
    from portico.features.people import users as services_users
    from portico.features.signin import second_factor
    from portico.features.signin import storage as signin_storage
    from portico.web import envelope, reading

_INVITE = """\
Prints a link for you to pass on. With a mail server, it is also sent by e-mail. It works
once, within seven days, and replaces an earlier link to the same address."""

_ROLES = f"{', '.join(ROLES)}, or one from the settings"

MAX_PASSWORD_BYTES = 4096
T = TypeVar("T")
Act: TypeAlias = "Callable[[Environment, int, Author], Awaitable[T]]"
"""What to do with the account of this id."""


def add_to(commands: Commands) -> None:
    """Declares `portico users …`."""
    users = commands.noun("users", "create, invite, list, change, suspend and delete users")
    create = users.verb(
        "create",
        run_create,
        "create a user",
        "A random password is created and printed once, unless --password-stdin gives one.",
    )
    create.add_argument("--email", metavar="E", required=True, help="e-mail, to sign in with")
    create.add_argument("--name", metavar="N", required=True, help="name, 2 to 100 characters")
    _add_role_and_plan(create)
    create.add_argument(
        "--password-stdin", action="store_true", help="read the password from standard input"
    )
    add_sandbox(create)
    invite = users.verb(
        "invite", run_invite, "invite someone, who chooses their own password", _INVITE
    )
    email = by_rule(lambda given: domain_users.email(given))
    invite.add_argument("email", metavar="EMAIL", type=email, help="e-mail to invite")
    name = by_rule(lambda given: domain_users.name(given))
    invite.add_argument("--name", metavar="N", type=name, help="name, which they can change")
    _add_role_and_plan(invite)
    listing = users.verb("list", run_list, "list users, oldest first")
    only = f"only this role: {_ROLES}"
    listing.add_argument("--role", metavar="R", choices=Suggested(ROLES), help=only)
    add_sandbox(listing)
    for verb, (run, summary, details) in _OF_ACCOUNTS.items():
        command = users.verb(verb, run, summary, details)
        command.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
        if verb == "set-plan":
            plans = "free, pro, enterprise, or one from the settings"
            command.add_argument("plan", metavar="PLAN", help=plans)
        if verb == "set-role":
            command.add_argument("role", metavar="ROLE", choices=Suggested(ROLES), help=_ROLES)
        if verb == "delete":
            needed = "required, because it cannot be undone"
            command.add_argument("--yes", action="store_true", help=needed)
        if verb != "reset-password":
            add_sandbox(command)


def _add_role_and_plan(command: ArgumentParser) -> None:
    command.add_argument(
        "--role",
        metavar="R",
        choices=Suggested(ROLES),
        default="viewer",
        help=f"{_ROLES} (default viewer)",
    )
    command.add_argument("--plan", metavar="P", default="free", help="plan (default free)")


def run_create(settings: Settings, chosen: Namespace) -> None:
    _check_plan(settings, chosen.plan)
    _check_role(settings, chosen.role)
    given = _given_password() if chosen.password_stdin else None
    password = accounts.random_password(os.urandom) if given is None else given
    values = _checked({"email": chosen.email, "name": chosen.name, "password": password})
    user = prepared.in_environment(
        settings,
        chosen,
        lambda env: services_users.create_user(
            env, **values, role=chosen.role, plan=chosen.plan, by=audit.OPERATOR
        ),
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
    faults = reading.Faults()
    read: dict[str, str] = reading.read_object(contract_users.CreateUser, values, "", faults)
    if found := [*faults.unreadable, *faults.broken]:
        faults_text = (
            f"{'the password' if fault.field == 'password' else f'--{fault.field}'} {fault.message}"
            for fault in found
        )
        raise CommandError("; ".join(faults_text), 2)
    return read


def run_set_plan(settings: Settings, chosen: Namespace) -> None:
    _check_plan(settings, chosen.plan)
    _change(settings, chosen, "plan")


def run_set_role(settings: Settings, chosen: Namespace) -> None:
    _check_role(settings, chosen.role)
    _change(settings, chosen, "role")


def _change(settings: Settings, chosen: Namespace, field: str) -> None:
    values = {field: getattr(chosen, field)}
    user = _on_account(
        settings, chosen, lambda env, user_id, by: accounts.change_account(env, user_id, values, by)
    )
    text = f"{plain(user.email)} now has the {field} {values[field]}."
    answer({"id": user.id, "email": user.email, **values}, text, as_json=chosen.json)


def run_suspend(settings: Settings, chosen: Namespace) -> None:
    user, keys = _on_account(settings, chosen, _naming_keys(accounts.suspend))
    text = f"{plain(user.email)} is suspended and has lost all access.{_naming(keys)}"
    facts = {"id": user.id, "email": user.email, "suspended": True, **_keys_for_others(keys)}
    answer(facts, text, as_json=chosen.json)


def run_resume(settings: Settings, chosen: Namespace) -> None:
    user = _on_account(settings, chosen, accounts.resume)
    text = f"{plain(user.email)} is no longer suspended. Its API keys work again."
    answer({"id": user.id, "email": user.email, "suspended": False}, text, as_json=chosen.json)


def run_reset_second_factor(settings: Settings, chosen: Namespace) -> None:
    user = _on_account(settings, chosen, second_factor.reset_factors)
    text = f"{plain(user.email)} no longer has a second factor."
    if user.password_hash is None:
        text += " It has no password either."
    answer({"id": user.id, "email": user.email}, text, as_json=chosen.json)


def run_invite(settings: Settings, chosen: Namespace) -> None:
    _check_plan(settings, chosen.plan)
    _check_role(settings, chosen.role)
    made = prepared.in_environment(
        settings,
        chosen,
        lambda env: invitations.invite(
            env,
            email=chosen.email,
            name=chosen.name or "",
            role=chosen.role,
            plan=chosen.plan,
            handed_over=True,
            by=audit.OPERATOR,
        ),
    )
    its = made.invitation
    facts = {
        "id": its.id,
        "email": its.email,
        "role": its.role,
        "link": made.link,
        "expires_at": envelope.timestamp(its.expires_at),
    }
    text = (
        f"{plain(its.email)} is invited, with the role {its.role}:\n\n  {made.link}\n\n"
        f"The link works until {minute(its.expires_at)} and only once. It is not shown again."
    )
    lost = f"Invite {plain(its.email)} again: a new link replaces it."
    answer(facts, text, as_json=chosen.json, lost=lost)


def run_reset_password(settings: Settings, chosen: Namespace) -> None:
    given = _on_account(settings, chosen, recovery.give_reset)
    facts = {
        "email": given.user.email,
        "link": given.link,
        "expires_at": envelope.timestamp(given.expires_at),
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


async def _delete(env: Environment, user_id: int, by: Author) -> User:
    user = await services_users.read_user(env, user_id)
    await services_users.delete_user(env, user_id, lambda _user: None, by)
    return user


def _naming_keys(act: Act[User]) -> Act[tuple[User, list[MadeKey]]]:
    """What `act` does, and the keys that the account created for others, which still work."""

    async def work(env: Environment, user_id: int, by: Author) -> tuple[User, list[MadeKey]]:
        mirror_id = None
        if env.mirror is not None:
            mirror = await env.mirror[people_storage.Users].by_account(user_id)
            mirror_id = None if mirror is None else mirror.id
        user = await act(env, user_id, by)
        return user, await api_keys.keys_for_others(env, user_id, mirror_id)

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
    if chosen.role is not None:
        _check_role(settings, chosen.role)
    print_list(settings, chosen, _LIST, lambda env: env[people_storage.Users].batches(chosen.role))


def _entry(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "email": user.email,
        "role": user.role,
        "plan": user.plan,
        "suspended": user.suspended_at is not None,
        "created_at": envelope.timestamp(user.created_at),
        "last_login_at": envelope.optional_timestamp(user.last_login_at),
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


_LIST = ListForm(
    _entry,
    ("ID", "E-MAIL", "NAME", "ROLE", "PLAN", "CREATED", "LAST SIGN-IN", "STATUS"),
    _cells,
    "There are no users.",
)


def run_show(settings: Settings, chosen: Namespace) -> None:
    facts = prepared.in_environment(settings, chosen, lambda env: _shown(env, chosen.email))
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
    user, now = await accounts.account(env, email), env.clock()
    return {
        **_entry(user),
        "email_verified": user.email_verified_at is not None,
        "api_keys": await env[access_storage.ApiKeys].count_usable(user.id, now),
        "sessions": await env[signin_storage.Sessions].count(user.id, now),
        "grants": await env[access_storage.Grants].count(user.id, now),
    }


def _on_account(settings: Settings, chosen: Namespace, act: Act[T]) -> T:
    async def work(env: Environment) -> T:
        user = await accounts.account(env, chosen.email)
        return await act(env, user.id, audit.OPERATOR)

    return prepared.in_environment(settings, chosen, work)


def _check_role(settings: Settings, role: str) -> None:
    known = [*ROLES, *settings.declared.roles]
    if role not in known:
        hint = meant(role, known) or f"; there are {', '.join(known)}."
        raise CommandError(f"There is no role {plain(role)}{hint}", exit_code=2)


def _check_plan(settings: Settings, plan: str) -> None:
    """Raises `CommandError` if the settings have no such plan."""
    if plan not in settings.plans:
        raise CommandError(
            f"there is no plan {plain(plan)}; there are {', '.join(settings.plans)}", 2
        )


_OF_ACCOUNTS: dict[str, tuple[Callable[[Settings, Namespace], None], str, str]] = {
    "show": (run_show, "show one user", ""),
    "set-plan": (
        run_set_plan,
        "move an account to another plan",
        """\
It takes effect immediately; used requests stay counted. The same applies to the account's
mirror in the sandbox.""",
    ),
    "set-role": (
        run_set_role,
        "give an account another role",
        "It takes effect immediately, in the sandbox too. The last admin cannot get another role.",
    ),
    "suspend": (
        run_suspend,
        "suspend an account",
        """\
The account loses all access immediately: its sessions, logins and grants end for good, and its API
keys stop working until it is resumed. Nothing of it is deleted. The same applies to its mirror in
the sandbox. Of an admin, invitations and reset links that nobody has used end too, and the keys are
named that they created for others: these still work. The last admin cannot be suspended.""",
    ),
    "resume": (
        run_resume,
        "end the suspension of an account",
        """\
The user can sign in again, and their API keys work again immediately. The same applies to the
account's mirror in the sandbox.""",
    ),
    "reset-second-factor": (
        run_reset_second_factor,
        "remove an account's second factors",
        """\
For users who lost them. Their app, passkeys and recovery codes stop working, and they are
notified by e-mail. Where a second factor is required, they set one up at the next sign-in.""",
    ),
    "reset-password": (
        run_reset_password,
        "print a link for a user to choose a new password",
        """\
Pass it on so that only the user can read it. It works once, within 24 hours. Until it is
used, the old password keeps working.""",
    ),
    "delete": (
        run_delete,
        "delete an account for good",
        """\
Its keys, sessions, grants and mirror are deleted too. Of an admin, invitations and reset
links that nobody has used end, and the keys are named that they created for others:
these still work. The last admin cannot be deleted.""",
    ),
}
"""The verbs about one account: what they run, their summary, and the details of their help."""
