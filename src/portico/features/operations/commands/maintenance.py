"""`portico migrate`: migrates both databases to this version, or lists what is pending.
`portico correct-times`: corrects what a clock that was far ahead has stored."""

import asyncio
from argparse import Namespace
from collections.abc import Sequence

import msgspec

from portico.app import Portico
from portico.change import Change
from portico.cli.initialise import require_place
from portico.cli.output import CommandError, answer, progress
from portico.cli.prepared import in_both
from portico.core.audit import OPERATOR
from portico.data.migrate import Migration, migrate, pending, shipped
from portico.engines import LIVE, SANDBOX
from portico.features.operations.events import TimesCorrected
from portico.features.operations.moments import correct
from portico.lost import is_prepared
from portico.settings import SettingError, Settings


class Step(msgspec.Struct, frozen=True):
    """One migration of one environment."""

    environment: str
    number: int
    name: str


def run(settings: Settings, chosen: Namespace) -> int:
    """Applies and lists pending migrations, as a server does when it starts. With `--check` it only
    lists them, and returns 1 if there are any."""
    require_place(settings)
    if chosen.check:
        due = asyncio.run(_pending(settings))
        answer({"pending": due}, _text("Pending:", due), as_json=chosen.json)
        return 1 if due else 0
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    applied = asyncio.run(_migrate(settings))
    answer({"applied": applied}, _text("Applied:", applied), as_json=chosen.json)
    return 0


def run_correct_times(settings: Settings, chosen: Namespace) -> None:
    """Corrects what a clock that was far ahead has stored, in both databases."""
    in_both(settings, correct_times)
    text = "Stored times that lay in the future are corrected."
    answer({"corrected": True}, text, as_json=chosen.json)


async def correct_times(portico: Portico) -> None:
    """Corrects stored moments that lie in the future, in both environments."""

    async def work(change: Change) -> None:
        await correct(change.tx, change.now)
        change.note(TimesCorrected())

    for env in portico.environments:
        await env.change(OPERATOR, work)


def _portico(settings: Settings, *, create: bool = False) -> Portico:
    try:
        return Portico(settings, create=create)
    except SettingError as error:  # of the files of kinds; the settings were read before
        raise CommandError(str(error)) from error


async def _migrate(settings: Settings) -> list[Step]:
    portico = _portico(settings, create=True)
    await portico.connect()
    applied: list[Step] = []
    try:
        with progress("Migrating", None, " steps") as bar:

            async def wait(seconds: float) -> None:
                bar.update()
                await asyncio.sleep(seconds)

            for env in portico.environments:
                applied += _steps(env.name, await migrate(env.db, portico.clock, wait=wait))
                if await portico.keep_tables(env):
                    applied.append(_of_kinds(env.name))
    finally:
        await portico.close()
    return applied


async def _pending(settings: Settings) -> list[Step]:
    """What `_migrate` would apply. Creates no file."""
    portico = _portico(settings)
    due: list[Step] = []
    if not is_prepared(settings):
        for name in (LIVE, SANDBOX):
            due += _steps(name, shipped("sqlite"))
            due += [_of_kinds(name)] if settings.kinds else []
        return due
    await portico.connect()
    try:
        for env in portico.environments:
            due += _steps(env.name, await pending(env.db))
            due += [_of_kinds(env.name)] if await portico.has_other_tables(env) else []
    finally:
        await portico.close()
    return due


def _of_kinds(environment: str) -> Step:
    return Step(environment, 0, "kinds")


def _steps(environment: str, migrations: Sequence[Migration]) -> list[Step]:
    return [Step(environment, one.number, one.name) for one in migrations]


def _text(heading: str, migrations: Sequence[Step]) -> str:
    lines = [f"  {one.environment}: {one.number:04d} {one.name}" for one in migrations]
    return "\n".join((heading, *lines)) if lines else "Up to date."
