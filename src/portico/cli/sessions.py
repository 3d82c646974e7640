"""`portico sessions`: lists and ends sessions and logins."""

from argparse import Namespace
from typing import Any

import msgspec

from portico.cli.output import CommandError, answer, minute, plain, table
from portico.cli.prepared import in_environment
from portico.cli.values import LOGIN, SESSION
from portico.contract.envelope import timestamp
from portico.domain.audit import OPERATOR
from portico.domain.errors import NotFound
from portico.domain.sessions import Session, idle_end
from portico.services.accounts import account
from portico.services.environment import Environment
from portico.services.sign_out import end_grant, end_session, sign_out_everywhere
from portico.settings import Settings
from portico.storage.grants import Grant


class _SignedIn(msgspec.Struct):
    """An active session or login. `id` says which of the two."""

    id: str
    owner: str
    address: str
    user_agent: str
    created_at: int
    last_used_at: int
    expires_at: int


def run_list(settings: Settings, chosen: Namespace) -> None:
    found = in_environment(settings, chosen, lambda env: _found(env, chosen))
    answer([_fact(each) for each in found], _table(found), as_json=chosen.json)


async def _found(env: Environment, chosen: Namespace) -> list[_SignedIn]:
    now = env.clock()
    if chosen.owner is None:
        return await _owned(env, await env.sessions.all(now), await env.grants.logins(now))
    owner = await account(env, chosen.owner)
    grants = await env.grants.of_user(owner.id, now)
    logins = [grant for grant in grants if grant.client_row_id is None]
    return await _owned(env, await env.sessions.of_user(owner.id, now), logins)


async def _owned(env: Environment, sessions: list[Session], logins: list[Grant]) -> list[_SignedIn]:
    owners: dict[int, str] = {}
    user_ids = {row.user_id for row in sessions} | {row.user_id for row in logins}
    for user_id in user_ids:
        user = await env.users.get(user_id)
        owners[user_id] = user.email if user else ""
    found = [
        _SignedIn(
            f"{SESSION}-{row.id}",
            owners[row.user_id],
            row.address,
            row.user_agent,
            row.created_at,
            row.last_seen_at,
            min(row.expires_at, idle_end(row.last_seen_at)),
        )
        for row in sessions
    ]
    found += [
        _SignedIn(
            f"{LOGIN}-{row.id}",
            owners[row.user_id],
            row.address,
            row.user_agent,
            row.created_at,
            row.last_used_at,
            row.expires_at,
        )
        for row in logins
    ]
    return sorted(found, key=lambda each: each.created_at, reverse=True)


def _fact(each: _SignedIn) -> dict[str, Any]:
    times = ("created_at", "last_used_at", "expires_at")
    return msgspec.structs.asdict(each) | {name: timestamp(getattr(each, name)) for name in times}


def _table(found: list[_SignedIn]) -> str:
    if not found:
        return "Nobody is signed in."
    headings = ("ID", "OWNER", "ADDRESS", "SINCE", "LAST USED", "UNTIL", "WITH")
    rows = [
        (
            each.id,
            plain(each.owner),
            each.address,
            minute(each.created_at),
            minute(each.last_used_at),
            minute(each.expires_at),
            plain(each.user_agent),
        )
        for each in found
    ]
    return table([headings, *rows])


def run_revoke(settings: Settings, chosen: Namespace) -> None:
    if chosen.all:
        if chosen.owner is None or chosen.id is not None:
            raise CommandError("--all takes --owner EMAIL and no ID", 2)
        sessions, grants = in_environment(settings, chosen, lambda env: _end_all(env, chosen))
        answer(
            {"owner": chosen.owner, "sessions": sessions, "grants": grants},
            f"{plain(chosen.owner)} is signed out everywhere.",
            as_json=chosen.json,
        )
        return
    if chosen.id is None or chosen.owner is not None:
        raise CommandError("name one ID, or an account with --all --owner EMAIL", 2)
    kind, row_id = chosen.id
    in_environment(settings, chosen, lambda env: _end(env, kind, row_id))
    name = f"{kind}-{row_id}"
    answer({"id": name}, f"{name} is ended.", as_json=chosen.json)


async def _end(env: Environment, kind: str, row_id: int) -> None:
    if kind == SESSION:
        await end_session(env, row_id, OPERATOR)
        return
    try:
        await end_grant(env, row_id, OPERATOR)
    except NotFound:
        raise NotFound(f"There is no login {row_id}.") from None


async def _end_all(env: Environment, chosen: Namespace) -> tuple[int, int]:
    owner = await account(env, chosen.owner)
    return await sign_out_everywhere(env, owner.id, OPERATOR)
