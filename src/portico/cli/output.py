"""The output of commands: one JSON value with --json, else plain text; errors go to stderr."""

import errno
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from portico.contract.envelope import timestamp

INSTALL_OTEL = (
    "install the wheel with its extra [otel], or in a checkout requirements/otel.txt"
    " (docs/operations/opentelemetry.md)"
)
"""How to install OpenTelemetry. It names the wheel, not the package `portico`: a package index may
have another package of that name."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a full disk, a full quota, and a file as large as its file system permits."""


class CommandError(Exception):
    """A command failed (exit code 1) or was used wrongly (2)."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def needing_room(place: Path | str) -> Iterator[None]:
    """Raises `CommandError` naming `place` when there is no room for more: the system names no file
    in that error, or the file that was being copied."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
        raise CommandError(f"{plain(str(place))} cannot be written: {reason}.") from error


def say(text: str) -> None:
    """Prints plain text for people on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(value: Any, text: str, *, as_json: bool, lost: str | None = None) -> None:
    """Prints the result of a command: `value` as JSON, else `text`. Raises `CommandError` if it
    cannot be written. If the result holds a secret that is shown once, `lost` is part of that
    error: it says what was created nevertheless and how to get a new secret."""
    with printing(lost):
        if as_json:
            _say_value(value)
        else:
            say(text)


@contextmanager
def printing(lost: str | None = None) -> Iterator[None]:
    """Raises `CommandError` if the result of a command cannot be written; `lost` as in `answer`."""
    try:
        yield
    except OSError as error:
        if lost:
            message = f"the secret could not be written: {error.strerror}. {lost}"
        elif isinstance(error, BrokenPipeError):  # the reader has stopped reading
            raise
        else:
            message = f"the result could not be written: {error.strerror}."
        raise CommandError(message) from error


def _say_value(value: Any) -> None:
    try:
        say_json(msgspec.json.encode(value))
    except UnicodeEncodeError:  # a file name that is not UTF-8; `json` writes it with escapes
        say_json(json.dumps(value).encode())


def say_error(message: str) -> None:
    """Prints an error as JSON, unless JSON was printed before: a command prints one value."""
    if not _JsonOutput.begun:
        _say_value({"error": {"message": message}})


def command_line(command: str, *, sandbox: bool) -> str:
    """The command line to type, with `--sandbox` if the command works on the sandbox."""
    return f"portico {command}{' --sandbox' if sandbox else ''}"


class _JsonOutput:
    """Whether this process, which runs one command, has begun to write JSON."""

    begun = False


def say_json(encoded: bytes) -> None:
    """Prints JSON on standard output, as UTF-8 whatever the encoding of that stream is."""
    with printing_json() as output:
        output.write(encoded + b"\n")


@contextmanager
def printing_json() -> Iterator[BinaryIO]:
    """Standard output, for the JSON value of this command in UTF-8."""
    _JsonOutput.begun = True
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def mention(text: str) -> None:
    """Prints a remark on standard error; does nothing if that cannot be written."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def plain(text: str) -> str:
    """Untrusted text made safe for a terminal: control characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def minute(milliseconds: int) -> str:
    """A time in milliseconds as tables show it: `2026-01-31 09:05Z`."""
    return timestamp(milliseconds)[:16].replace("T", " ") + "Z"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as aligned columns. The first row holds the headings."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(line(row, widths) for row in rows)


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A line of a table whose columns have these widths."""
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()
