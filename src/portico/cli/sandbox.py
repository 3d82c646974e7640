"""`portico sandbox`: the environment that may be broken."""

import asyncio
from argparse import Namespace

from portico.cli.output import answer
from portico.cli.prepared import prepared
from portico.domain.audit import OPERATOR
from portico.services.sandbox import Filled, reset
from portico.settings import Settings


def run_reset(settings: Settings, chosen: Namespace) -> None:
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
