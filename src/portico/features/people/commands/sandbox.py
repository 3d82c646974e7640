"""`portico sandbox`: fills the sandbox with sample data."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from portico.cli.arguments import Commands, add_yes
from portico.cli.lazy import lazy_imports
from portico.cli.output import answer, asks, confirm

if TYPE_CHECKING:
    from portico.features.people.sandbox import Filled
    from portico.settings import Settings

with lazy_imports():
    from portico import app, engines, lost
    from portico.cli import lock, prepared
    from portico.core import audit
    from portico.data import migrate
    from portico.features.operations.commands import moving
    from portico.features.people import sandbox as services_sandbox

_DETAILS = """\
All products and all other users are deleted. Mirror users of live accounts stay, with their keys
and sessions, and so do events, webhooks, OAuth clients and the audit log. Live data is never
touched. Sample users have no password, so nobody can sign in as one; portico keys create --sandbox
--type test creates keys for them."""


def add_to(commands: Commands) -> None:
    """Declares `portico sandbox …`."""
    add_yes(
        commands.noun("sandbox", "fill the sandbox with sample data").verb(
            "reset", run_reset, "replace the sandbox's contents with sample data", _DETAILS
        )
    )


def run_reset(settings: Settings, chosen: Namespace) -> None:
    if asks(chosen):
        confirm("Replace all products of the sandbox, and its users but for mirrors, by samples?")
    import asyncio  # which takes longer to load than all declarations of commands

    filled = asyncio.run(_fill(settings))
    stayed = (
        "1 mirror of a live account"
        if filled.mirrors == 1
        else f"{filled.mirrors} mirrors of live accounts"
    )
    answer(
        {"users": filled.users, "products": filled.products, "mirrors": filled.mirrors},
        f"The sandbox holds {filled.users} sample users and {filled.products} sample products."
        f" {stayed} stayed.",
        as_json=chosen.json,
    )


async def _fill(settings: Settings) -> Filled:
    await _make_lost(settings)
    async with prepared.prepared(settings) as portico:
        return await services_sandbox.reset(portico.sandbox, audit.OPERATOR)


async def _make_lost(settings: Settings) -> None:
    """Creates a sandbox database if it is lost. Its ids begin far above those that the old one may
    have given out."""
    if not lost.is_prepared(settings):
        return
    live = engines.database(settings, engines.LIVE)
    # While a server runs, the file may only have been moved, and may come back.
    sandbox = engines.database(settings, engines.SANDBOX, create=lock.holder(settings.data) is None)
    await live.open()
    try:
        if not await lost.is_used(live):
            return
        await sandbox.open()
        try:
            # One with tables but without accounts was made here by a run that was interrupted.
            if not await lost.is_used(sandbox):
                await migrate.migrate(sandbox, app.system_clock)
                await moving.skip_ids(sandbox, app.system_clock(), unmarked=True)
        finally:
            await sandbox.close()
    finally:
        await live.close()
