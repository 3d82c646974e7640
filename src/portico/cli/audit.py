"""`portico audit`: who did what."""

import asyncio
from argparse import Namespace
from typing import Any

import msgspec

from portico.cli.output import answer, minute, plain, table
from portico.cli.prepared import environment
from portico.contract.envelope import timestamp
from portico.domain.audit import Entry
from portico.services.accounts import account
from portico.settings import Settings


def run(settings: Settings, chosen: Namespace) -> None:
    entries = asyncio.run(_read(settings, chosen))
    answer([_fact(entry) for entry in entries], _table(entries), as_json=chosen.json)


async def _read(settings: Settings, chosen: Namespace) -> list[Entry]:
    async with environment(settings, chosen) as env:
        user_id = None if chosen.user is None else (await account(env, chosen.user)).id
        return await env.audit.page(
            before=chosen.before, user_id=user_id, action=chosen.action, limit=chosen.limit
        )


def _fact(entry: Entry) -> dict[str, Any]:
    known = entry.user_id is not None or entry.email is not None
    return {
        "id": entry.id,
        "at": timestamp(entry.at),
        "action": entry.action,
        "user": {"id": entry.user_id, "email": entry.email} if known else None,
        "credential": entry.credential,
        "credential_id": entry.credential_id,
        "address": entry.address,
        "target": entry.target,
        "target_id": entry.target_id,
        "details": msgspec.json.decode(entry.details),
        "request_id": entry.request_id,
    }


def _table(entries: list[Entry]) -> str:
    if not entries:
        return "There are no entries."
    headings = ("ID", "AT", "WHO", "WITH", "FROM", "ACTION", "TARGET", "DETAILS")
    rows = [
        (
            str(entry.id),
            minute(entry.at),
            plain(entry.email or "-"),
            _named(entry.credential, entry.credential_id),
            entry.address or "-",
            entry.action,
            _named(entry.target or "-", entry.target_id),
            plain(entry.details) if entry.details != "{}" else "",
        )
        for entry in entries
    ]
    return table([headings, *rows])


def _named(kind: str, row_id: int | str | None) -> str:
    return kind if row_id is None else f"{kind} {plain(str(row_id))}"
