"""The standard streams of commands. Output is one JSON value with --json, else plain text; errors,
remarks and questions go to stderr."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from portico.cli.lazy import lazy_imports

with lazy_imports():
    from portico.web import envelope

RESET, DIM, CYAN, GREEN, YELLOW, RED = (
    f"\x1b[{code}m" for code in ("0", "2", "36", "32", "33", "31")
)

INSTALL_OTEL = (
    "install the wheel with its extra [otel], or in a checkout requirements/otel.txt"
    " (docs/operations/opentelemetry.md)"
)
"""How to install OpenTelemetry. It names the wheel, not the package `portico`: a package index may
have another package of that name."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of a full disk, a full quota, and a file as large as its file system permits."""


# stdout is replaced by a read-only file, so that writing fails as it does on a closed descriptor:
# losing the output silently could lose a secret.
_CLOSED = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


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
        say_json(envelope.encode(value))
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
    return envelope.timestamp(milliseconds)[:16].replace("T", " ") + "Z"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as aligned columns. The first row holds the headings."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(line(row, widths) for row in rows)


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A line of a table whose columns have these widths."""
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def in_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colours (https://no-color.org)."""
    plainly = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plainly


def painted(colour: str, text: str, stream: TextIO, *, as_json: bool = False) -> str:
    """A text in a colour if `stream` shows colours and the command prints no JSON."""
    return f"{colour}{text}{RESET}" if not as_json and in_colour(stream) else text


def confirm(question: str) -> None:
    """Asks on standard error. Raises `CommandError` unless the answer is yes."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.buffer.readline().strip().lower() not in (b"y", b"yes"):
        raise CommandError("Nothing was changed.")


def asks(chosen: Namespace) -> bool:
    """Whether a command with `--yes` asks first: only a person at a terminal can answer."""
    return not chosen.yes and sys.stdin.isatty()


def replace_closed() -> None:
    """Replaces closed standard streams, so that no file opened later gets their descriptors, and
    makes stdout and stderr write escapes for characters that their encoding lacks."""
    for name, mode, flags in _CLOSED:
        if getattr(sys, name) is None:
            closed = os.open(os.devnull, flags)
            # Workers inherit it, so that their files do not get these descriptors either.
            os.set_inheritable(closed, True)  # noqa: FBT003 - it has no names
            setattr(sys, name, os.fdopen(closed, mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output(stream: TextIO | None = None) -> None:
    """Redirects a stream (default stdout) to nowhere, so that unread output is not written again at
    exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def flush_output() -> None:
    """Flushes stdout and stderr at the end, and drops what can no longer be written. Otherwise
    Python would try again, fail and exit with 120: with stdout, and from 3.14 on with stderr."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            discard_output(stream)


def progress(what: str, total: int | None, unit: str) -> Any:
    """A progress bar on standard error, if that is a terminal. A bar without a `total` is cleared
    when it closes: the command then prints the result itself."""
    from tqdm import tqdm  # for commands that have one

    size = shutil.get_terminal_size()  # 80 by 24 if the terminal says 0 by 0, where tqdm is blank
    return tqdm(
        desc=what,
        total=total,
        unit=unit,
        unit_scale=True,
        leave=total is not None,
        file=sys.stderr,
        disable=not sys.stderr.isatty(),
        ncols=size.columns,
        nrows=size.lines,
    )
