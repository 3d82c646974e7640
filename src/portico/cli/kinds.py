"""`portico kinds`: the installation's own kinds of resources, and the files that declare them."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portico.cli.arguments import Commands, add_yes
from portico.cli.lazy import lazy_imports
from portico.cli.output import CommandError, answer, asks, confirm, table

if TYPE_CHECKING:
    from portico.app import Portico
    from portico.change import Change
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import prepared
    from portico.core import audit
    from portico.features.operations import events
    from portico.resource import loading, tables


def add_to(commands: Commands) -> None:
    """Declares `portico kinds …`."""
    kinds = commands.noun("kinds", "list the kinds that files declare, and check files", run_list)
    check = kinds.verb(
        "check",
        run_check,
        "check files without a server",
        "Prints every fault with its file and line. Exits with 2 if there is one.",
    )
    check.add_argument(
        "directory", metavar="DIR", nargs="?", help="the directory (default: that of the settings)"
    )
    dropping = kinds.verb(
        "drop",
        run_drop,
        "remove for good what no file declares any more",
        "A kind or field that is gone from the files is hidden and kept until this removes it.",
    )
    dropping.add_argument("name", metavar="NAME", help="such as orders, or orders.note")
    add_yes(dropping)


def run_list(settings: Settings, chosen: Namespace) -> None:
    """Lists kinds and fields with their state."""
    found = prepared.in_both(settings, _states)
    rows = [(each["name"], each["state"]) for each in found]
    text = table([("NAME", "STATE"), *rows]) if rows else "There are no kinds."
    answer(found, text, as_json=chosen.json)


async def _states(portico: Portico) -> list[dict[str, str]]:
    stored, _ = await tables.stored(portico.live.db, portico.live.db.engine)
    declared = {records.kind.many: records.kind for records in portico.live.records}
    found = []
    for many in sorted(stored.keys() | declared.keys()):
        kind, known = declared.get(many), stored.get(many)
        found.append((many, _state(declared=kind is not None, stored=known is not None)))
        names = {*(kind.by_name if kind else ()), *(known.fields if known else ())}
        for name in sorted(names):
            is_declared = kind is not None and name in kind.by_name
            is_stored = known is not None and name in known.fields
            found.append((f"{many}.{name}", _state(declared=is_declared, stored=is_stored)))
    return [{"name": name, "state": state} for name, state in found]


def _state(*, declared: bool, stored: bool) -> str:
    if not declared:
        return "hidden"
    return "live" if stored else "new"


def run_check(settings: Settings, chosen: Namespace) -> None:
    """Judges the files of a directory. Raises `KindsError`."""
    directory = Path(chosen.directory) if chosen.directory else settings.kinds
    if directory is None:
        raise CommandError("There is no directory of kinds: name one.", 2)
    found = loading.load(directory.absolute(), frozenset(settings.declared.roles))
    names = [kind.many for kind in found]
    text = f"Fine: {', '.join(names)}." if names else "Fine, but no kind is declared."
    answer({"kinds": names}, text, as_json=chosen.json)


def run_drop(settings: Settings, chosen: Namespace) -> None:
    """Removes a hidden kind or field for good."""
    if asks(chosen):
        confirm(f"Remove {chosen.name} and all its data for good?")
    elif not chosen.yes:
        raise CommandError(f"This removes {chosen.name} for good: repeat it with --yes.", 2)
    name: str = chosen.name
    prepared.in_both(settings, lambda portico: _drop(portico, name))
    answer({"dropped": name}, f"{name} is removed.", as_json=chosen.json)


async def _drop(portico: Portico, name: str) -> None:
    many, _, field = name.partition(".")
    for records in portico.live.records:
        if records.kind.many == many and (not field or field in records.kind.by_name):
            raise CommandError(f"{name} is still declared: take it out of its file first.")
    dropped: list[Any] = []
    for env in portico.environments:
        engine = env.db.engine

        async def work(change: Change, engine: Any = engine) -> None:
            if await tables.drop(change.tx, engine, name):
                change.note(events.KindDropped(name))
                dropped.append(name)

        await env.change(audit.OPERATOR, work)
    if not dropped:
        raise CommandError(f"There is no {name} in the database; nothing was changed.")
