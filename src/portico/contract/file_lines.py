"""Reads the lines of a file as text, row by row, and bounds the size of a row."""

from typing import BinaryIO

from portico.domain.errors import Unreadable

MAX_ROW_BYTES = 1024 * 1024
MAX_ROW_LINES = 20_000
"""The most lines of a row, including empty lines before it: a CSV cell may contain newlines."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NOT_UTF8 = "must be UTF-8"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class RowError(ValueError):
    """The row cannot be parsed."""


class TooLong(RowError):
    """The row exceeds `MAX_ROW_BYTES` or `MAX_ROW_LINES`."""


class Lines:
    """The lines of a file as text, row by row. A line beyond the limits of its row raises
    `TooLong`, after which the next line can be read. The first line raises `Unreadable` if it has
    the byte order mark of UTF-16."""

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
        if self.end >= self._last_end:
            if not line.endswith(b"\n"):
                self._skip()
            raise TooLong(f"must be shorter than {MAX_ROW_BYTES} bytes")
        if self.number > self._last_number:
            raise TooLong(f"must have at most {MAX_ROW_LINES} lines, with the empty ones before it")
        if self.number == 1:
            if line.startswith(_UTF16_MARKS):
                raise Unreadable("This file is UTF-16: save it as UTF-8.")
            line = line.removeprefix(BYTE_ORDER_MARK)
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

    def _skip(self) -> None:
        """Skips to the end of the line."""
        while rest := self._file.readline(MAX_ROW_BYTES):
            self.end += len(rest)
            self.quotes += rest.count(b'"')
            if rest.endswith(b"\n"):
                return
