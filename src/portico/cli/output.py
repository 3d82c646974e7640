"""How commands speak: one JSON value with --json, plain text without, complaints on stderr."""

import errno
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from portico.contract.envelope import timestamp

INSTALLING = (
    "install the wheel with its extra [otel], or in a checkout requirements/otel.txt"
    " (docs/operations/opentelemetry.md)"
)
"""What to do where OpenTelemetry is not there; an index may have another package of that name."""


class CommandError(Exception):
    """A command ran and something is wrong (1), or was misused (2)."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def needing_room(place: Path | str) -> Iterator[None]:
    """Tells under `place` that the disk is full. The system names no file there, or the one that
    was being copied."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise CommandError(f"{plain(str(place))} cannot be written: the disk is full.") from error


def say(text: str) -> None:
    """Plain text for people, on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(value: Any, text: str, *, as_json: bool, lost: str | None = None) -> None:
    """The result of a command: `value` as JSON or `text`. Where that holds a secret which is not
    shown again, `lost` says what is there if it cannot be written, and how to have another: raises
    `CommandError` with it."""
    try:
        if as_json:
            _say_value(value)
        else:
            say(text)
    except OSError as error:
        if lost:
            told = f"the secret could not be written: {error.strerror}. {lost}"
        elif isinstance(error, BrokenPipeError):  # they have had enough
            raise
        else:
            told = f"what came of it could not be written: {error.strerror}."
        raise CommandError(told) from error


def _say_value(value: Any) -> None:
    try:
        say_json(msgspec.json.encode(value))
    except UnicodeEncodeError:  # a file's name that is not UTF-8, for which JSON has escapes
        say_json(json.dumps(value).encode())


def say_error(message: str) -> None:
    """What was wrong, as JSON, where no JSON was begun: it is one value for each command."""
    if not _Spoken.json:
        _say_value({"error": {"message": message}})


def named(command: str, *, sandbox: bool) -> str:
    """A command as it is to be typed, for the environment that was chosen."""
    return f"portico {command}{' --sandbox' if sandbox else ''}"


class _Spoken:
    """Whether JSON was begun to be written, by this process, which carries out one command."""

    json = False


def say_json(encoded: bytes) -> None:
    """JSON on standard output: UTF-8, whatever the encoding of text is there."""
    _Spoken.json = True
    sys.stdout.flush()
    sys.stdout.buffer.write(encoded + b"\n")
    sys.stdout.buffer.flush()


def mention(text: str) -> None:
    """Something beside the result, on standard error, where that takes it."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def plain(text: str) -> str:
    """Somebody else's text, safe for a terminal: control characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def minute(milliseconds: int) -> str:
    """A time as people read it in a table."""
    return timestamp(milliseconds)[:16].replace("T", " ") + "Z"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, the first one the headings, as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)
