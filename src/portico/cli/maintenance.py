"""`portico migrate`: brings both databases up to this program."""

import asyncio
from argparse import Namespace

import msgspec

from portico.app import Portico
from portico.cli.output import answer
from portico.settings import Settings
from portico.storage.migrate import migrate


class Applied(msgspec.Struct, frozen=True):
    """One migration that was applied to one environment."""

    environment: str
    number: int
    name: str


def run(settings: Settings, chosen: Namespace) -> None:
    """Applies what is pending and tells it. A server does the same when it starts."""
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    applied = asyncio.run(_migrate(settings))
    lines = [f"{one.environment}: {one.number:04d} {one.name}" for one in applied]
    text = "\n".join(("Applied:", *(f"  {line}" for line in lines))) if lines else "Up to date."
    answer({"applied": applied}, text, as_json=chosen.json)


async def _migrate(settings: Settings) -> list[Applied]:
    portico = Portico(settings)
    await portico.connect()
    try:
        return [
            Applied(environment.name, one.number, one.name)
            for environment in portico.environments
            for one in await migrate(environment.db, portico.clock)
        ]
    finally:
        await portico.close()
