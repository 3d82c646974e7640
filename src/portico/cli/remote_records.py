"""Records of the API in files, for a machine that has no data directory.

What a kind's records have is read in the API's OpenAPI document; whether a row may be stored, the
API decides.
"""

import asyncio
import json
import re
from argparse import Namespace
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from portico.cli.output import CommandError, plain
from portico.cli.remote import Api, RefusedRequest, chosen_api
from portico.core.errors import Fault
from portico.core.words import Format
from portico.resource.file_rows import ROW, Columns, FileRow, ImportOutcome, Named
from portico.resource.imports import REPEATED_ID, Spool
from portico.settings import Settings
from portico.web.csv_cells import csv_text

T = TypeVar("T")

AT_ONCE = 100
"""How many rows are sent in one request: so many count as one."""
MOST_BYTES = 512 * 1024
"""About the most bytes of them."""
MOST_AT_ONCE = 1_000
"""The most rows that the API stores all or none of."""

PRODUCTS = "products"

_OF_LISTS = ("sort", "order", "page", "limit")

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def chosen_records(settings: Settings, chosen: Namespace, many: str) -> "RemoteRecords | None":
    """The records of a kind at the API that a command shall use; None: those of the database.
    Raises `CommandError`."""
    api = chosen_api(settings, chosen)
    return None if api is None else RemoteRecords(api, many, own="kind" in chosen)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs what `record_files` does with such a target."""
    return asyncio.run(work)


class RemoteRecords:
    """The records of one kind, as a target of `record_files`."""

    def __init__(self, api: Api, many: str, *, own: bool) -> None:
        """Raises `CommandError` where the API has no such kind, or with `own` only Portico has."""
        self._api, self._many = api, many
        document = api.read("openapi.json")[0]
        paths = document["paths"]
        kinds = {path[1:-6] for path in paths if path.endswith("/batch")}
        if many not in (kinds - {PRODUCTS} if own else kinds):
            known = ", ".join(sorted(kinds - {PRODUCTS}))
            there = f"the kinds are {known}" if known else "the API has none"
            raise CommandError(f"There is no kind {plain(many)}: {there}.", 2)
        schemas = document["components"]["schemas"]
        name = _body_of(paths[f"/{many}"]["post"])
        create = schemas[name]
        change = schemas[_body_of(paths[f"/{many}/{{id}}"]["patch"])]
        words = many.replace("-", " ")
        one = _CAPITAL.sub(" ", name.removeprefix("Create")).lower()
        types = {
            field: _types(facts) | _types(change["properties"].get(field, {}))
            for field, facts in create["properties"].items()
        }
        nested = {field for field, named in types.items() if named & {"object", "array"}}
        self.columns = Columns(
            _shape("Create", create),
            _shape("Change", change),
            [*types],
            one=one,
            many=words,
            reference=f"a {one}" if many == PRODUCTS else f"one of the {words}",
            numbers=[field for field, named in types.items() if named & {"integer", "number"}],
            json=nested,
            empty={
                field: None if "null" in named else [] if "array" in named else {}
                for field, named in types.items()
                if "null" in named or field in nested
            },
            booleans=[field for field, named in types.items() if "boolean" in named],
        )
        self._parts = [
            {parameter["name"]: value}
            for parameter in paths[f"/{many}"]["get"]["parameters"]
            if "default" in parameter.get("schema", ()) and parameter["name"] not in _OF_LISTS
            for value in parameter["schema"].get("enum", ())
        ] or [{}]
        self._named = Named()

    async def store_in_batches(
        self, rows: Iterator[FileRow]
    ) -> AsyncGenerator[ImportOutcome, None]:
        """Stores the rows without faults, a request for each batch."""
        batch: list[FileRow] = []
        start = 0
        for row in rows:
            batch.append(row)
            if len(batch) >= AT_ONCE or row.end - start >= MOST_BYTES:
                yield self._stored(batch)
                batch, start = [], row.end
        if batch:
            yield self._stored(batch)

    async def check_in_batches(self, _spool: Spool) -> AsyncIterator[ImportOutcome]:
        """Nothing: the API tells when it stores them."""
        for _ in ():
            yield ImportOutcome(0, 0, 0, 0, 0, [])

    async def store_at_once(self, spool: Spool, stored: Callable[[int], None]) -> ImportOutcome:
        """Stores all rows, or none: then the first that cannot be stored is `refused`."""
        rows = [*spool]
        if len(rows) > MOST_AT_ONCE:
            raise CommandError(
                f"--strict takes at most {MOST_AT_ONCE:,} rows over the API, not {len(rows):,}."
            )
        for row in rows:
            if self._is_repeated(row):
                return ImportOutcome(0, 0, 0, 0, 0, [row])
        if not rows:
            return ImportOutcome(0, 0, 0, 0, 0, [])
        try:
            results = self._send(rows, atomic=True)
        except RefusedRequest as refusal:
            return ImportOutcome(0, 0, 0, 0, 0, [_refused_of(rows, refusal)])
        stored(len(rows))
        return self._outcome(rows, results, [])

    async def batches(self) -> AsyncIterator[Sequence[Any]]:
        """Every record, oldest first."""
        items = [self._short(item) for page in self._pages() for item in page]
        items.sort(key=lambda item: item if isinstance(item, int) else item["id"])
        for start in range(0, len(items), AT_ONCE):
            yield [self._whole(item) for item in items[start : start + AT_ONCE]]

    def newest(self, limit: int) -> tuple[Sequence[str], Sequence[Mapping[str, Any]]]:
        """The names that a list shows, and the newest records, whole."""
        rows: list[Mapping[str, Any]] = []
        for page in self._pages():
            rows += page[: limit - len(rows)]
            if len(rows) >= limit:
                break
        names = [name for name in rows[0] if name in self.columns.all] if rows else ()
        return names, [self._whole(self._short(row)) for row in rows]

    def _pages(self) -> Iterator[list[Any]]:
        """The records as lists show them, the newest first of each part that lists show apart, as
        they do of products by status."""
        for part in self._parts:
            yield from self._api.pages(self._many, part)

    def _whole(self, item: Mapping[str, Any] | int) -> Mapping[str, Any]:
        if not isinstance(item, int):
            return item
        row: Mapping[str, Any] = self._api.read(f"{self._many}/{item}")[0]["data"]
        return row

    def written(self, form: Format, batch: Sequence[Any]) -> bytes:
        """Records as rows of a file."""
        if form == "csv":
            return csv_text([_cell(row[name]) for name in self.columns.all] for row in batch)
        return b"".join(
            f"{exact({name: row[name] for name in self.columns.all})}\n".encode() for row in batch
        )

    def _short(self, item: Mapping[str, Any]) -> Mapping[str, Any] | int:
        """A record as a list shows it, or its id where that is not all of it."""
        if all(name in item for name in self.columns.all):
            return item
        return int(item["id"])

    def _stored(self, batch: Sequence[FileRow]) -> ImportOutcome:
        left = [row for row in batch if not row.faults and not self._is_repeated(row)]
        results = self._send(left, atomic=False) if left else []
        return self._outcome(left, results, [row for row in batch if row.faults], batch[-1])

    def _outcome(
        self,
        rows: Sequence[FileRow],
        results: Sequence[Mapping[str, Any]],
        refused: list[FileRow],
        last: FileRow | None = None,
    ) -> ImportOutcome:
        statuses = [result["status"] for result in results]
        for row, result in zip(rows, results, strict=True):
            if error := result.get("error"):
                faults = [Fault(one["field"], one["message"]) for one in error["details"]]
                if result["status"] == 404:
                    faults = [self.columns.missing(row.id)]
                faults = faults or [Fault(ROW, error["message"])]
                refused.append(FileRow(row.line, row.end, {}, faults, row.id))
        refused.sort(key=lambda row: row.line)
        line, end = (last.line, last.end) if last else (0, 0)
        return ImportOutcome(line, end, statuses.count(201), statuses.count(200), 0, refused)

    def _is_repeated(self, row: FileRow) -> bool:
        if row.id and not self._named.add(row.id):
            row.faults.append(REPEATED_ID)
            return True
        return False

    def _send(self, rows: Sequence[FileRow], *, atomic: bool) -> list[Any]:
        items: list[Any] = [
            ({"id": row.id} if row.id else {})
            | {name: Raw(text.encode()) for name, text in row.values.items()}
            for row in rows
        ]
        body: dict[str, Any] = {"items": items, "atomic": atomic}
        if any(row.id for row in rows):
            body["upsert_by"] = "id"
        results: list[Any] = self._api.send(f"{self._many}/batch", msgspec.json.encode(body))[
            "data"
        ]
        return results


def exact(value: Any) -> str:
    """A JSON value as text, with numbers as they were written."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        members = (f"{json.dumps(name)}:{exact(one)}" for name, one in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(exact, value))}]"
    return json.dumps(value, ensure_ascii=False)


class _AnyValue:
    """A value that the API judges, as JSON text."""

    def read(self, value: Any, _path: str, _faults: object) -> str:
        """See `FieldKind.read`."""
        return exact(value)

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
        return {}


_VALUE = Annotated[str, _AnyValue()]


def _shape(name: str, schema: Mapping[str, Any]) -> type[msgspec.Struct]:
    """The shape of rows with the fields of a schema."""
    required = schema.get("required", ())
    fields = [
        (field, _VALUE) if field in required else (field, _VALUE | UnsetType, UNSET)
        for field in schema["properties"]
    ]
    return msgspec.defstruct(name, fields, kw_only=True)


def _body_of(operation: Mapping[str, Any]) -> str:
    """The name of the schema of an operation's body."""
    (media,) = operation["requestBody"]["content"].values()
    return str(media["schema"]["$ref"].rpartition("/")[2])


def _types(schema: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema admits."""
    named = schema.get("type", ())
    found = {named} if isinstance(named, str) else {*named}
    return found.union(
        *(_types(one) for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())))
    )


def _refused_of(rows: Sequence[FileRow], refusal: RefusedRequest) -> FileRow:
    """The row of which all were refused. Raises the refusal where none is to blame."""
    faults = []
    number = 0 if len(rows) == 1 else None
    for fault in refusal.error["details"]:
        place = re.fullmatch(r"items\.([0-9]+)(?:\.(.*))?", fault["field"])
        if place:
            number = int(place[1])
        faults.append(Fault((place[2] or ROW) if place else fault["field"], fault["message"]))
    if number is None or refusal.status not in (400, 404, 409, 422):
        raise refusal
    row = rows[number]
    faults = faults or [Fault(ROW, refusal.error["message"])]
    return FileRow(row.line, row.end, {}, faults, row.id)


def _cell(value: Any) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return exact(value) if value else ""
    return value
