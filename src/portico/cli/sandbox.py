"""`portico sandbox`: the environment that may be broken."""

import asyncio
from argparse import Namespace

from portico.cli.arguments import Commands
from portico.cli.output import answer
from portico.cli.prepared import prepared
from portico.domain.audit import OPERATOR
from portico.services.sandbox import Filled, reset
from portico.settings import Settings

_DETAILS = """\
Users who mirror live accounts stay, with their keys and sessions, and so do OAuth clients and the
audit log; all else goes. Live data is never touched. Sample users have no password: nobody can sign
in as one, but portico keys create --sandbox --type test makes them keys."""


def add_to(commands: Commands) -> None:
    """Declares `portico sandbox …`."""
    commands.noun("sandbox", "fill the sandbox with sample data").verb(
        "reset", _reset, "replace what the sandbox holds by sample data", _DETAILS
    )


def _reset(settings: Settings, chosen: Namespace) -> None:
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
    async with prepared(settings) as portico:
        return await reset(portico.sandbox, OPERATOR)
