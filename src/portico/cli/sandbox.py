"""`portico sandbox`: fills the sandbox with sample data."""

import asyncio
from argparse import Namespace

from portico.app import system_clock
from portico.cli.asking import asks, confirm
from portico.cli.lock import holder
from portico.cli.output import answer
from portico.cli.prepared import prepared
from portico.domain.audit import OPERATOR
from portico.engines import LIVE, SANDBOX, database
from portico.lost import is_prepared, is_used
from portico.services.sandbox import Filled, reset
from portico.settings import Settings
from portico.storage.migrate import migrate
from portico.storage.numbers import skip_ids


def run_reset(settings: Settings, chosen: Namespace) -> None:
    if asks(chosen):
        confirm("Replace all products of the sandbox, and its users but for mirrors, by samples?")
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
    async with prepared(settings) as portico:
        return await reset(portico.sandbox, OPERATOR)


async def _make_lost(settings: Settings) -> None:
    """Creates a sandbox database if it is lost. Its ids begin far above those that the old one may
    have given out."""
    if not is_prepared(settings):
        return
    live = database(settings, LIVE)
    # While a server runs, the file may only have been moved, and may come back.
    sandbox = database(settings, SANDBOX, create=holder(settings.data) is None)
    await live.open()
    try:
        if not await is_used(live):
            return
        await sandbox.open()
        try:
            # One with tables but without accounts was made here by a run that was interrupted.
            if not await is_used(sandbox):
                await migrate(sandbox, system_clock)
                await skip_ids(sandbox, system_clock(), unmarked=True)
        finally:
            await sandbox.close()
    finally:
        await live.close()
