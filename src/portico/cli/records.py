"""`portico records KIND`: records of the installation's own kinds, to files and from them."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from portico.cli.arguments import Commands, add_api, add_limit, add_sandbox
from portico.cli.lazy import lazy_imports
from portico.cli.output import CommandError, answer, plain, table
from portico.cli.record_files import StoredRecords, add_arguments, export_file, import_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portico.cli.remote_records import RemoteRecords
    from portico.environment import Environment
    from portico.resource.store import Records
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import prepared, remote_records
    from portico.web import envelope

_IMPORT = """\
FILE is CSV (a header and one record a row) or NDJSON (one JSON object a line), with the fields of
POST and by its rules, those of the kind's file included: each row's have two seconds. In CSV an
empty cell leaves its field out, truth values are true and false, and cells of lists and objects
hold JSON; an apostrophe that an export puts before a text is taken off. The name's ending tells the
format, else the first character does.

With --update, a row with an id changes the record with that id, so that an exported file can be
edited and imported again. Fields that a row or the header leaves out stay as they are; an empty CSV
cell clears its field. Rows without an id become new records. Without --update, a row with an id is
faulty.

Faulty rows are reported on standard error, with their line and every fault. The other rows are
imported, and the exit code is 1. Rows are stored in small batches: a server keeps running as usual,
and rows that were stored stay if the import is interrupted.

With --strict, either all rows are imported or none, in one transaction. Other changes wait for it
and are refused (503) after 5 seconds. Reading works as usual."""

_EXPORT = """\
Writes every record with its id and without times, as import --update reads it: one JSON object per
line, or CSV if the name ends in .csv. In CSV, a text that a spreadsheet would run gets an
apostrophe in front."""


def add_to(commands: Commands) -> None:
    """Declares `portico records KIND …`."""
    records = commands.noun(
        "records",
        "list, import and export records of your own kinds",
        of=("kind", "the kind, such as orders"),
    )
    importing = records.verb("import", run_import, "import records from a file", _IMPORT)
    exporting = records.verb("export", run_export, "export all records to a file", _EXPORT)
    add_arguments(importing, exporting, "records")
    listing = records.verb("list", run_list, "list records, newest first")
    add_limit(listing, "records", 100)
    add_sandbox(listing)
    add_api(listing)


def run_import(settings: Settings, chosen: Namespace) -> int:
    """Imports records of the chosen kind."""
    return import_file(
        settings, chosen, "record", chosen.kind, lambda env: _files(env, chosen.kind)
    )


def run_export(settings: Settings, chosen: Namespace) -> None:
    """Exports the records of the chosen kind."""
    export_file(settings, chosen, chosen.kind, lambda env: _files(env, chosen.kind))


def run_list(settings: Settings, chosen: Namespace) -> None:
    """Lists records of the chosen kind."""
    far = remote_records.chosen_records(settings, chosen, chosen.kind)
    if far is not None:
        found, text = _listed_far(far, chosen.kind, chosen.limit)
    else:
        found, text = prepared.interruptible(
            settings, chosen, lambda env: _listed(env, chosen.kind, chosen.limit)
        )
    answer(found, text, as_json=chosen.json)


async def _listed(env: Environment, many: str, limit: int) -> tuple[list[Any], str]:
    """The newest records, as JSON values and as a table."""
    records = await _records(env, many)
    kind = records.kind
    rows: list[Any] = []
    async for batch in records.newest():
        rows += batch[: limit - len(rows)]
        if len(rows) >= limit:
            break
    shown = [json.loads(envelope.encode(kind.body(row))) for row in rows]
    return _table(shown, ("id", *(field.name for field in kind.listed)), kind.many)


def _listed_far(far: RemoteRecords, many: str, limit: int) -> tuple[list[Any], str]:
    """As `_listed`, over the API."""
    names, rows = far.newest(limit)
    shown = [json.loads(remote_records.exact(row)) for row in rows]
    return _table(shown, names, many)


def _table(shown: list[Any], names: Sequence[str], many: str) -> tuple[list[Any], str]:
    cells = [[_cell(each[name]) for name in names] for each in shown]
    if not cells:
        return [], f"There are no {many}."
    return shown, table([[name.upper() for name in names], *cells])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


async def _files(env: Environment, many: str) -> StoredRecords:
    """The files of a kind. Raises `CommandError` where it has none, and as `_records`."""
    kind = (await _records(env, many)).kind
    if not kind.kind.files:
        raise CommandError(f"{many} have no import and export: their file says files=False.", 2)
    return StoredRecords(env, kind)


async def _records(env: Environment, many: str) -> Records:
    """The store of a kind. Raises `CommandError` where there is none, and `Unavailable` unless the
    database was migrated to the files of kinds."""
    for records in env.records:
        if records.kind.many == many:
            if env.check_kinds:
                await env.check_kinds()
            found: Records = records
            return found
    known = ", ".join(records.kind.many for records in env.records)
    there = f"the kinds are {known}" if known else "no file declares one"
    raise CommandError(f"There is no kind {plain(many)}: {there}.", 2)
