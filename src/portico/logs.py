"""The process's own log: one JSON object a line on standard error, secrets redacted."""

import errno
import fcntl
import logging
import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from portico.contract.envelope import timestamp
from portico.http.redact import redact
from portico.storage.database import traceparent

PATIENCE_SECONDS = 1.0
"""How long whoever reads the log may leave no room in its pipe: nothing is served meanwhile."""

HURRIED_SECONDS = 60.0
"""For how long nobody waits for room once there was none: who reads slowly would hold up the server
again and again."""


class _Output:
    """What is known of standard error."""

    torn = False
    """Whether a line that was cut stands at its end, since the disk was full."""
    hurried_until = 0.0
    """The system's time from which on is waited for room again."""


def write(lines: bytes) -> None:
    """Writes whole lines to standard error: to a file at once, else in pieces that a pipe keeps
    together, so that those of several processes are not torn into each other (pipe(7)). A line that
    is longer goes in one piece too, which a pipe keeps together that holds nothing else. Raises
    `OSError`."""
    if _Output.torn:
        lines = b"\n" + lines
    with _unblocked(sys.stderr.fileno()) as descriptor:
        # Each piece lets other threads run, which takes longer than to write it.
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        most = len(lines) if is_file else select.PIPE_BUF
        room = select.poll()  # `select.select` knows the first 1,024 files alone
        room.register(descriptor, select.POLLOUT)
        begin = 0
        while begin < len(lines):
            end = begin + most
            if end < len(lines):
                end = lines.rfind(b"\n", begin, end) + 1 or lines.index(b"\n", end) + 1
            _write_all(descriptor, room, lines[begin:end])
            begin = end


@contextmanager
def _unblocked(descriptor: int) -> Iterator[int]:
    """The same, or a pipe opened anew so that it blocks nobody: another process may take the room
    that there was. What others have of the pipe stays as it is."""
    own = None
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_NONBLOCK
        with suppress(OSError):  # of another account, or without /proc
            own = os.open(f"/proc/self/fd/{descriptor}", flags)
    try:
        yield descriptor if own is None else own
    finally:
        if own is not None:
            os.close(own)


def _write_all(descriptor: int, room: select.poll, piece: bytes) -> None:
    """Writes less at once only where the system does, and waits for a full pipe for a while,
    whether or not that blocks."""
    done = 0
    try:
        while done < len(piece):
            is_hurried = time.monotonic() < _Output.hurried_until
            patience = 0.0 if is_hurried else PATIENCE_SECONDS
            if not room.poll(patience * 1000):
                _Output.hurried_until = time.monotonic() + HURRIED_SECONDS
                raise BlockingIOError(errno.EAGAIN, "nobody reads the log")
            with suppress(BlockingIOError):  # another process was faster
                rest = piece[done:]
                done += os.write(descriptor, rest[: _most(descriptor, rest)])
    finally:
        if done:
            _Output.torn = piece[done - 1 : done] != b"\n"


def _most(descriptor: int, rest: bytes) -> int:
    """How many bytes to write at once where there is room: a pipe that blocks, and nobody reads,
    would hold up whoever writes more than surely fits."""
    if len(rest) <= select.PIPE_BUF or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return len(rest)
    return select.PIPE_BUF if os.get_blocking(descriptor) else len(rest)


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        line: dict[str, Any] = {
            "time": timestamp(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "event": redact(record.getMessage()),
            "logger": record.name,
        }
        if request_id := getattr(record, "request_id", None):
            line["request_id"] = request_id
        if parent := traceparent.get():
            line["trace_id"] = parent.split("-")[1]
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


class _Lines(logging.Handler):
    """Writes each record by itself."""

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`. What finds no room is lost, as lines of requests are."""
        try:
            write(self.format(record).encode() + b"\n")
        except OSError:
            pass
        except Exception:  # noqa: BLE001 - as the handlers of `logging` do
            self.handleError(record)


def configure(level: str) -> None:
    """Sends every logger's records of `level` and above to standard error."""
    handler = _Lines()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
