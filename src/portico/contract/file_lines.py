"""Reads the lines of a file as text, row by row, and bounds the size of a row."""

import re
from typing import BinaryIO

from portico.domain.errors import Unreadable

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
