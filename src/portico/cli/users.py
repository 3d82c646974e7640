"""`portico users`: accounts, from the operator's side."""

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable
from getpass import getpass
from typing import Any

from portico.cli.output import CommandError, answer, plain
from portico.cli.prepared import environment
from portico.contract.reading import Faults, read_object
from portico.contract.users import CreateUser
from portico.domain.audit import OPERATOR, By
from portico.domain.users import User
from portico.services.accounts import account, random_password, set_plan
from portico.services.environment import Environment
from portico.services.second_factor import reset_factors
from portico.services.suspension import resume, suspend
from portico.services.users import create_user
from portico.settings import Settings

MAX_PASSWORD_BYTES = 4096

Act = Callable[[Environment, int, By], Awaitable[User]]
"""What is done to the account with an id."""


def run_create(settings: Settings, chosen: Namespace) -> None:
    _check_plan(settings, chosen.plan)
    given = _given_password() if chosen.password_stdin else None
    password = random_password(os.urandom) if given is None else given
    values = _checked(
        {"email": chosen.email, "name": chosen.name, "role": chosen.role, "password": password}
    )
    user = asyncio.run(_store(settings, values, chosen))
    facts: dict[str, Any] = {"id": user.id, "email": user.email}
    text = f"User {user.id} is created: {plain(user.email)}, {user.role}, plan {user.plan}."
    if given is None:
        facts["password"] = password
        text += f"\n\n  password   {password}\n\nStore it now; it is not shown again."
    answer(facts, text, as_json=chosen.json)


async def _store(settings: Settings, values: dict[str, str], chosen: Namespace) -> User:
    async with environment(settings, chosen) as env:
        return await create_user(
            env,
            name=values["name"],
            email=values["email"],
            password=values["password"],
            role=values["role"],
            plan=chosen.plan,
            by=OPERATOR,
        )


def _given_password() -> str:
    if sys.stdin.isatty():
        return getpass("Password: ")
    raw = sys.stdin.buffer.read(MAX_PASSWORD_BYTES)
    try:
        return raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise CommandError("the password on standard input must be UTF-8", 2) from None


def _checked(values: dict[str, str]) -> dict[str, str]:
    """The values as POST /users would take them. Raises `CommandError` with every fault."""
    faults = Faults()
    read: dict[str, str] = read_object(CreateUser, values, "", faults)
    if found := [*faults.unreadable, *faults.broken]:
        told = (
            f"{'the password' if fault.field == 'password' else f'--{fault.field}'} {fault.message}"
            for fault in found
        )
        raise CommandError("; ".join(told), 2)
    return read


def run_set_plan(settings: Settings, chosen: Namespace) -> None:
    _check_plan(settings, chosen.plan)
    user = asyncio.run(_move(settings, chosen))
    answer(
        {"id": user.id, "email": user.email, "plan": user.plan},
        f"{plain(user.email)} is on the plan {user.plan} now.",
        as_json=chosen.json,
    )


async def _move(settings: Settings, chosen: Namespace) -> User:
    async with environment(settings, chosen) as env:
        return await set_plan(env, chosen.email, chosen.plan, OPERATOR)


def run_suspend(settings: Settings, chosen: Namespace) -> None:
    user = asyncio.run(_on_account(settings, chosen, suspend))
    text = f"{plain(user.email)} is suspended: nothing that the account has opens anything."
    answer({"id": user.id, "email": user.email, "suspended": True}, text, as_json=chosen.json)


def run_resume(settings: Settings, chosen: Namespace) -> None:
    user = asyncio.run(_on_account(settings, chosen, resume))
    text = f"{plain(user.email)} is suspended no longer. Its API keys work again."
    answer({"id": user.id, "email": user.email, "suspended": False}, text, as_json=chosen.json)


def run_reset_second_factor(settings: Settings, chosen: Namespace) -> None:
    user = asyncio.run(_on_account(settings, chosen, reset_factors))
    text = f"{plain(user.email)} has no second factor any more; its password alone signs in."
    answer({"id": user.id, "email": user.email}, text, as_json=chosen.json)


async def _on_account(settings: Settings, chosen: Namespace, act: Act) -> User:
    async with environment(settings, chosen) as env:
        user = await account(env, chosen.email)
        return await act(env, user.id, OPERATOR)


def _check_plan(settings: Settings, plan: str) -> None:
    """Raises `CommandError` for a plan that the settings do not have."""
    if plan not in settings.plans:
        raise CommandError(
            f"there is no plan {plain(plan)}; there are {', '.join(settings.plans)}", 2
        )
