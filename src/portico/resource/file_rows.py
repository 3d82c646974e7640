"""Records in files: CSV and NDJSON, both with the fields and rules of POST.

NDJSON has one record per line; CSV has a header that names fields, and one record per row. A CSV
cell of a field with an object or array contains JSON. A row with an `id` changes that record by the
rules of PATCH if `update` is set; otherwise it is faulty. An empty CSV cell is omitted from a new
record, and empties the field of a changed one. Records of only empty cells are ignored, and so are
empty cells after the last column. Files are UTF-8, with or without a byte order mark, and read as
streams: memory, and the time to get to the next row, are bounded by the longest row that is
accepted. Files that are written here read back the same.

Spreadsheets run formulas. So a CSV text cell that begins like a formula is written with an
apostrophe before it, which is removed when the cell is read (`csv_cells`).
"""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from io import BufferedReader
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

import msgspec

from portico.core.errors import BrokenRule, Fault, Unreadable
from portico.core.ids import MAX_ID
from portico.core.money import price_text, price_written
from portico.core.words import Format
from portico.web.csv_cells import MOST_CELLS, csv_text, shortened, unguarded
from portico.web.reading import Faults, NotJson, parse_json, printable, read_object, required, sent

_BLOCK = 1024
"""How many ids one integer holds as bits."""


class FileRow(msgspec.Struct):
    """One row of the file: its first line, and either its values or its faults.

    `values` are those of a new record, with defaults, or the changes to the record `id`; `end` is
    how many bytes of the file precede the next row.
    """

    line: int
    end: int
    values: dict[str, Any]
    faults: list[Fault]
    id: int = 0
    """The record to change; 0 for a new one."""
    given: dict[str, str] = {}
    """The beginnings of the faulty values, by field, for fields that are a single value."""
    emptied: list[str] = []
    """The fields that an empty cell makes null, unless they are an empty text."""


class Named:
    """The ids that rows have named so far, one bit each, since ids are close together."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}

    def add(self, row_id: int) -> bool:
        """Adds an id. Returns whether it is new."""
        block, place = divmod(row_id, _BLOCK)
        known = self._blocks.get(block, 0)
        self._blocks[block] = known | 1 << place
        return not known >> place & 1


class ImportOutcome(NamedTuple):
    """The result of importing, or checking, some rows of a file up to a line and a byte. `refused`
    are faulty rows, and rows that the records' current state does not allow."""

    line: int
    end: int

    inserted: int
    updated: int
    unchanged: int
    refused: list[FileRow]


class RowFault(Fault, frozen=True):
    """A fault of a row; `value` is the beginning of the field's value, if it has one."""

    value: str = ""


class Rejected(msgspec.Struct, frozen=True):
    """A rejected row: its first line, and why it was rejected."""

    line: int
    faults: list[RowFault]


_MOST_SHOWN = 60
"""How many characters of a faulty value are shown."""


def report(rejected: Iterable[Rejected]) -> bytes:
    """The faults of rows as CSV, one line for each fault."""
    head = [("line", "field", "message", "value")]
    return csv_text(head) + csv_text(
        (row.line, fault.field, fault.message, fault.value)
        for row in rejected
        for fault in row.faults
    )


def beginning(value: Any, path: str) -> str:
    """The beginning of the value at a dotted path; empty if there is none, or for an array or
    object, because writing all of it out for each fault would take long."""
    for name in path.split("."):
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict | list):
        return ""
    text = msgspec.json.encode(value).decode() if isinstance(value, bool) else str(value)
    return printable(text[:_MOST_SHOWN]) + ("…" if len(text) > _MOST_SHOWN else "")


MAX_ROW_BYTES = 1024 * 1024
MAX_ROW_LINES = 20_000
"""The most lines of a row, including empty lines before it: a CSV cell may contain newlines."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NOT_UTF8 = "must be UTF-8"

_UTF16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[\t-~]\0){2}|(?:\0[\t-~]){2}")
"""How UTF-16 begins: with a byte order mark, or with two characters of ASCII."""

_ZIP = b"PK\x03\x04"
_ZIP_BYTES = 65_536
"""How much of a ZIP file is searched for what it has in it."""
_WORKBOOKS = {b"xl/w": ".xlsx", b"application/vnd.oasis.opendocument.spreadsheet": ".ods"}
"""What the beginnings of workbooks contain that are ZIP files."""
_XLS = b"\xd0\xcf\x11\xe0"
_ARCHIVES = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
    b"7z\xbc\xaf": "7z",
    b"Rar!": "RAR",
}
_TAR = slice(257, 262), b"ustar"


class RowError(ValueError):
    """The row cannot be parsed."""


class TooLong(RowError):
    """The row exceeds `MAX_ROW_BYTES` or `MAX_ROW_LINES`."""


class Lines:
    """The lines of a file as text, row by row. A line beyond the limits of its row raises
    `TooLong`, after which the next line can be read. The first line raises `Unreadable` if it is
    the beginning of UTF-16, a workbook or an archive."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.number = 0
        self.end = 0
        self.text = ""
        """The line that was read last."""
        self.quotes = 0
        """How many quotes that line contains."""
        self.begin_row()

    def begin_row(self) -> None:
        """The next line begins another row."""
        self.is_utf8 = True
        """Whether the whole row is valid UTF-8; invalid bytes are read as U+FFFD."""
        self._last_number = self.number + MAX_ROW_LINES
        self._last_end = self.end + MAX_ROW_BYTES

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        line = self._file.readline(MAX_ROW_BYTES)
        if not line:
            raise StopIteration
        self.number += 1
        self.end += len(line)
        self.quotes = line.count(b'"')
        if self.number == 1:
            line = self._first(line)
        if self.end >= self._last_end:
            if not line.endswith(b"\n"):
                self._skip()
            raise TooLong(f"must be shorter than {MAX_ROW_BYTES} bytes")
        if self.number > self._last_number:
            raise TooLong(f"must have at most {MAX_ROW_LINES} lines, with the empty ones before it")
        try:
            self.text = line.decode("utf-8")
        except UnicodeDecodeError:
            self.is_utf8 = False
            self.text = line.decode("utf-8", "replace")
        return self.text

    def next_row(self) -> str:
        """The next line as a whole row. Raises `RowError` also if it is not UTF-8."""
        line = next(self)
        if not self.is_utf8:
            raise RowError(NOT_UTF8)
        return line

    def _first(self, line: bytes) -> bytes:
        """The first line without its byte order mark. Raises `Unreadable`."""
        if line.startswith(_XLS):
            raise _workbook(".xls")
        if line.startswith(_ZIP):
            start = line + self._file.read(_ZIP_BYTES)
            for content, ending in _WORKBOOKS.items():
                if content in start:
                    raise _workbook(ending)
            raise _archive("ZIP")
        for magic, kind in _ARCHIVES.items():
            if line.startswith(magic):
                raise _archive(kind)
        place, magic = _TAR
        if line[place] == magic:
            raise _archive("tar")
        if _UTF16.match(line):
            raise Unreadable("This file is UTF-16: save it as UTF-8.")
        line = line.removeprefix(BYTE_ORDER_MARK)
        if line.startswith(BYTE_ORDER_MARK):
            raise Unreadable(
                "This file begins with two byte order marks: save it with one or none."
            )
        return line

    def _skip(self) -> None:
        """Skips to the end of the line."""
        while rest := self._file.readline(MAX_ROW_BYTES):
            self.end += len(rest)
            self.quotes += rest.count(b'"')
            if rest.endswith(b"\n"):
                return


def _workbook(ending: str) -> Unreadable:
    return Unreadable(f"This is a workbook ({ending}): save its sheet as CSV in UTF-8.")


def _archive(kind: str) -> Unreadable:
    return Unreadable(f"This is an archive ({kind}): unpack it, and import the file in it.")


ROW = "row"
"""The field that a fault of a whole row names."""

_ID = "id"


class Columns:
    """The columns of the files of one kind of records, and the shapes that read their values."""

    def __init__(
        self,
        create: type[msgspec.Struct],
        change: type[msgspec.Struct],
        names: Sequence[str],
        *,
        one: str,
        many: str,
        reference: str,
        numbers: Collection[str],
        json: Collection[str],
        empty: Mapping[str, Any],
        booleans: Collection[str] = (),
        prices: Collection[str] = (),
        blank: Collection[str] = (),
    ) -> None:
        """`one` and `many` are what records are called; an id is that of `reference`. Cells of
        `json` contain JSON; `empty` are the values of empty cells in a row that changes a record,
        where that is not an empty text. The messages about `prices` say how to write them. Cells of
        `blank` are empty both for null and for an empty text."""
        self.create, self.change = create, change
        self.one, self.many, self.reference = one, many, reference
        self.all = (_ID, *names)
        self.required = tuple(name for name in names if name in required(create))
        self.numbers = frozenset((_ID, *numbers))
        self.json, self.empty = frozenset(json), dict(empty)
        self.booleans, self.prices = frozenset(booleans), frozenset(prices)
        self.blank = frozenset(blank)

    def named(self, name: str) -> str:
        """The field of a column's name, in any case."""
        return name.lower() if name.lower() in self.all else name

    def missing(self, row_id: int) -> Fault:
        """The fault of a row that is to change a record which does not exist."""
        return Fault(_ID, f"must be the id of {self.reference}; there is no {self.one} {row_id}")

    def place(self, fault: Fault) -> int:
        """The position of a fault's field among the columns; other names come last."""
        name = fault.field.partition(".")[0]
        return self.all.index(name) if name in self.all else len(self.all)


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SURELY_SHORT = 18
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
_NAMED_SEPARATOR = re.compile(r'(?i)"?sep=([,;\t|])"?\r?\n?')
"""A first line that tells a spreadsheet what separates the columns."""
_MOST_PROBLEMS = 10
"""How many faults of a header are reported."""


def format_of(name: str) -> Format | None:
    """The format that a file's name implies, if any."""
    ending = name.lower().rpartition(".")[2]
    if ending == "csv":
        return "csv"
    return "ndjson" if ending in ("ndjson", "jsonl") else None


def sniff(start: bytes, one: str) -> Format:
    """The format that a file's first bytes imply. Raises `Unreadable` for a JSON array."""
    first = start.removeprefix(BYTE_ORDER_MARK).lstrip()[:1]
    if first == b"[":
        raise Unreadable(f"This is a JSON array; write one {one} per line instead (NDJSON).")
    return "ndjson" if first == b"{" else "csv"


def read_rows(
    columns: Columns, file: BinaryIO, form: Format, *, update: bool = False
) -> Iterator[FileRow]:
    """All rows of a file, including faulty ones; with `update`, rows with an `id` change records.
    Raises `Unreadable` for an invalid CSV header, and for what is no UTF-8 text."""
    read = _csv if form == "csv" else _ndjson
    return read(columns, Lines(file), update=update)


def form_of(file: BufferedReader, name: str, one: str) -> Format:
    """The format that a file's name implies, or otherwise its first bytes. Raises what `sniff`
    raises."""
    implied = sniff(file.peek(1), one)
    return format_of(name) or implied


def _ndjson(columns: Columns, lines: Lines, *, update: bool) -> Iterator[FileRow]:
    while True:
        try:
            text = lines.next_row()
            if not text.strip():
                continue
            value = parse_json(text.rstrip("\r\n"))
        except StopIteration:
            return
        except (RowError, NotJson) as error:
            yield FileRow(lines.number, lines.end, {}, [Fault(ROW, str(error))])
        else:
            yield _row(columns, lines.number, lines.end, value, Faults(), update=update)
        lines.begin_row()


def _csv(columns: Columns, lines: Lines, *, update: bool) -> Iterator[FileRow]:
    csv.field_size_limit(MAX_ROW_BYTES)
    names, records = _header(columns, lines, update=update)
    lines.begin_row()
    while True:
        line = lines.number + 1
        try:
            cells = shortened(next(records), len(names))
        except StopIteration:
            return
        except TooLong as error:
            yield FileRow(line, lines.end, {}, [Fault(ROW, _fault_message(error))])
            # A record of more than one line has a quoted cell.
            yield from _skip_cell(lines, is_open=(lines.number > line) != bool(lines.quotes % 2))
            lines.begin_row()
            continue
        except csv.Error as error:
            message = _fault_message(error) if lines.is_utf8 else NOT_UTF8
            yield FileRow(line, lines.end, {}, [Fault(ROW, message)])
            lines.begin_row()
            continue
        if not any(cells):
            continue
        if not lines.is_utf8:
            yield FileRow(line, lines.end, {}, [Fault(ROW, NOT_UTF8)])
        elif len(cells) == len(names):
            faults = Faults()
            values = _values(columns, names, cells, faults, update=update)
            row = _row(columns, line, lines.end, values, faults, update=update)
            if row.id:
                row.emptied = [name for name in columns.blank if row.values.get(name, "") is None]
            yield row
        else:
            count = f"must have {len(names)} cells like the header, not {len(cells)}"
            yield FileRow(line, lines.end, {}, [Fault(ROW, count)])
        lines.begin_row()


def _skip_cell(lines: Lines, *, is_open: bool) -> Iterator[FileRow]:
    """Skips the rest of a quoted cell of a row that was too long. Yields a further fault each time
    that exceeds the limits of a row."""
    while is_open:
        lines.begin_row()
        line = lines.number + 1
        try:
            while is_open:
                next(lines)
                is_open ^= bool(lines.quotes % 2)
        except StopIteration:
            return
        except TooLong as error:
            is_open ^= bool(lines.quotes % 2)
            yield FileRow(line, lines.end, {}, [Fault(ROW, _fault_message(error))])


def _fault_message(error: Exception) -> str:
    if isinstance(error, TooLong):
        return f"{error}; is a closing quote missing?"
    if "new-line character" in str(error):
        return "must end with LF or CR LF, not with only CR"
    return f"is not well-formed CSV: {error}"


def _header(
    columns: Columns, lines: Lines, *, update: bool
) -> tuple[list[str], Iterator[list[str]]]:
    """The names of the columns, and the records that follow. Raises `Unreadable`."""
    separator = ","
    try:
        first = next(lines, "")
        if named := _NAMED_SEPARATOR.fullmatch(first):
            separator = named[1]
        rest = lines if named else chain((first,), lines)
        records = csv.reader(rest, delimiter=separator, strict=True)
        cells = next(records, [])
    except (TooLong, csv.Error) as error:
        message = _fault_message(error) if lines.is_utf8 else NOT_UTF8
        raise _bad_header(columns, lines.text, separator, f"The CSV header {message}.") from None
    if not lines.is_utf8:
        raise Unreadable(f"The CSV header {NOT_UTF8}: save the file as UTF-8.")
    allowed = f"The fields are {', '.join(columns.all)}, separated by {_SEPARATORS[separator]}."
    if len(cells) > MOST_CELLS:
        problem = f"The CSV header has {len(cells)} cells. {allowed}"
        raise _bad_header(columns, lines.text, separator, problem)
    names = shortened([columns.named(name.strip()) for name in cells], 0)
    if not names:
        raise Unreadable("The first line must be a CSV header that names the columns.")
    problems = [f"{printable(name)!r} is not a field" for name in names if name not in columns.all]
    problems += [f"{name} appears twice" for name in columns.all if names.count(name) > 1]
    if not (update and _ID in names):
        problems += [f"{name} is missing" for name in columns.required if name not in names]
    if problems:
        problem = f"The CSV header is not valid: {', '.join(problems[:_MOST_PROBLEMS])}. {allowed}"
        raise _bad_header(columns, lines.text, separator, problem)
    return names, records


def _bad_header(columns: Columns, header: str, separator: str, problem: str) -> Unreadable:
    """The error for an invalid header: that it has another separator, as spreadsheets write in
    countries with a decimal comma, or else its `problem`."""
    for other, words in _SEPARATORS.items():
        parts = header.split(other, MOST_CELLS)
        names = {columns.named(name.strip(' "\r\n')) for name in parts}
        if other != separator and len(names & {*columns.all}) > 1:
            return Unreadable(
                f"The columns of this file are separated by {words}: save it with"
                f" {_SEPARATORS[separator]} instead, and with a decimal point in prices."
            )
    return Unreadable(problem)


def _values(
    columns: Columns, names: list[str], cells: list[str], faults: Faults, *, update: bool
) -> dict[str, Any]:
    """The JSON values of cells; notes a fault for each that cannot be read."""
    values: dict[str, Any] = {}
    changing = update and _ID in names and bool(cells[names.index(_ID)])
    for name, cell in zip(names, cells, strict=True):
        if not cell:
            if changing:
                values[name] = columns.empty.get(name, "")
            continue
        if name in columns.numbers:
            cell = cell.strip()
            is_respelled = name == _ID and cell.startswith("0")  # as in paths, ids have one form
            values[name] = cell if is_respelled else _number(cell)
            continue
        if name in columns.booleans:
            values[name] = _TRUTH.get(cell.strip().lower(), cell)
            continue
        text = unguarded(cell)
        if name in columns.json:
            try:
                values[name] = parse_json(text)
            except NotJson as error:
                faults.cannot_read(name, f"must be JSON. {error}")
        else:
            values[name] = text
    return values


_TRUTH = {"true": True, "false": False}
"""Cells of truth values, in any case: spreadsheets write TRUE and FALSE."""


def _number(cell: str) -> int | Decimal | str:
    """The number in a cell; anything else stays text, which every number's rule refuses."""
    if not _NUMBER.fullmatch(cell):
        return cell
    if cell.isdecimal() and len(cell) <= _SURELY_SHORT:
        return int(cell)
    try:
        return Decimal(cell)
    except InvalidOperation:
        return cell


def _row(
    columns: Columns, line: int, end: int, value: Any, faults: Faults, *, update: bool
) -> FileRow:
    if not isinstance(value, dict):
        return FileRow(line, end, {}, [Fault(ROW, "must be a JSON object")])
    row_id = 0
    given = {}
    if _ID in value:
        given[_ID] = value.pop(_ID)
        row_id = _id(columns, given[_ID], faults, update=update)
        values = read_object(columns.change, value, "", faults)
    else:
        values = read_object(columns.create, value, "", faults)
    if found := [*faults.unreadable, *faults.broken]:
        whole = value | given
        beginnings = {fault.field: beginning(whole, fault.field) for fault in found}
        found = sorted((_advised(columns, fault, value) for fault in found), key=columns.place)
        return FileRow(line, end, {}, found, row_id, beginnings)
    if not row_id:
        values = sent(columns.create(**values))
    return FileRow(line, end, values, [], row_id)


def _advised(columns: Columns, fault: Fault, value: dict[str, Any]) -> Fault:
    """A fault that says how to write a price which is written as on pages, such as 24,50."""
    given = value.get(fault.field)
    if fault.field not in columns.prices or not isinstance(given, str) or _NUMBER.fullmatch(given):
        return fault
    try:
        written = price_text(price_written(given))
    except BrokenRule:
        return fault
    return Fault(fault.field, f"must be a plain number: write {written}")


def _id(columns: Columns, value: Any, faults: Faults, *, update: bool) -> int:
    if not update:
        message = f"must be omitted unless the import updates existing {columns.many}"
        faults.cannot_read(_ID, message)
    elif type(value) is not int or not 0 < value <= MAX_ID:
        faults.cannot_read(_ID, f"must be the id of {columns.reference}")
    else:
        return value
    return 0


def header(form: Format, columns: Columns) -> bytes:
    """The beginning of a file, before the first record."""
    return csv_text([columns.all]) if form == "csv" else b""
