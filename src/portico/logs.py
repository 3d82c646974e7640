"""The process's log: one JSON object per line on standard error, with secrets redacted.

A thread writes it, so that a slow or stuck reader blocks nothing else.
"""

import atexit
import logging
import os
import select
import stat
import sys
import threading
from collections import deque
from typing import Any

import msgspec

from portico.data.database import traceparent
from portico.web.envelope import timestamp
from portico.web.measure import redact

MOST_WAITING = 8 * 1024 * 1024
"""The most bytes of lines that wait to be written. Further lines are lost."""

LAST_SECONDS = 1.0
"""How long an ending process waits for unwritten lines."""


class Writer:
    """Writes lines to standard error in a thread of its own, and logs how many were lost."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        """`most` is how many bytes may wait."""
        self._most = most
        self._size = 0
        self._waiting: deque[bytes | int] = deque()  # lines, or how many were lost in their place
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._lost = 0

    def write(self, lines: bytes) -> None:
        """Queues whole lines. Never blocks and never raises."""
        with self._changed:
            if self._size + len(lines) <= self._most:
                self._waiting.append(lines)
                self._size += len(lines)
            elif len(self._waiting) > 1 and isinstance(self._waiting[-1], int):
                self._waiting[-1] += lines.count(b"\n")
            else:
                self._waiting.append(lines.count(b"\n"))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> None:
        """Waits until all lines are written, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                first = self._waiting[0]
            self._write_out(first)
            with self._changed:
                self._waiting.popleft()
                self._size -= 0 if isinstance(first, int) else len(first)
                self._changed.notify_all()

    def _write_out(self, lines: bytes | int) -> None:
        """Writes lines, preceded by how many were lost."""
        try:
            if isinstance(lines, int):
                self._lost += lines
            if self._lost:
                self._put(_line_about(self._lost))
                self._lost = 0
            if isinstance(lines, bytes):
                self._put(lines)
        except (OSError, ValueError):  # ValueError where standard error is closed
            if isinstance(lines, bytes):
                self._lost += lines.count(b"\n")

    def _put(self, lines: bytes) -> None:
        """Writes to a file at once, else in pieces that a pipe writes atomically, so that lines of
        several processes do not mix (pipe(7)). A longer line is still one piece. Raises
        `OSError`."""
        descriptor = sys.stderr.fileno()
        # Each write switches threads, which takes longer than the write itself.
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        most = len(lines) if is_file else select.PIPE_BUF
        begin = 0
        while begin < len(lines):
            end = begin + most
            if end < len(lines):
                end = lines.rfind(b"\n", begin, end) + 1 or lines.index(b"\n", end) + 1
            self._put_all(descriptor, lines[begin:end])
            begin = end

    def _put_all(self, descriptor: int, piece: bytes) -> None:
        """Writes the whole piece, and waits when there is no room."""
        while piece:
            try:
                piece = piece[os.write(descriptor, piece) :]
            except BlockingIOError:  # standard error was opened as non-blocking
                room = select.poll()  # `select.select` only takes the first 1,024 descriptors
                room.register(descriptor, select.POLLOUT)
                room.poll()


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


def _line_about(lost: int) -> bytes:
    """The line that says how many were lost."""
    event = f"lines of the log were lost: {lost}"
    said = {"name": __name__, "levelname": "WARNING", "msg": event}
    return JsonLines().format(logging.makeLogRecord(said)).encode() + b"\n"


_writer = Writer()

write = _writer.write


class _Lines(logging.Handler):
    """Writes each record as a line."""

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        try:
            write(self.format(record).encode() + b"\n")
        except Exception:  # noqa: BLE001 - as the handlers of `logging` do
            self.handleError(record)


def configure(level: str) -> None:
    """Sends every logger's records of `level` and above to standard error."""
    handler = _Lines()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Not by `logging.shutdown`: each listener configures `logging` again, which drops this handler.
    atexit.register(_writer.flush, LAST_SECONDS)
