"""How lines of the log are written where several processes share a pipe."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from select import PIPE_BUF
from typing import BinaryIO

import pytest

from portico.logs import JsonLines, Writer

LONG_SECONDS = 60.0
PAGE = b"x" * (PIPE_BUF - 1) + b"\n"


@contextmanager
def pipe(monkeypatch: pytest.MonkeyPatch, *, blocks: bool = True) -> Iterator[BinaryIO]:
    """Standard error as a pipe, and the end that is read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, blocks)
    with os.fdopen(reading, "rb", 0) as reader, os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        yield reader


def told(line: bytes) -> str:
    """What a line of the process itself says."""
    return str(json.loads(line)["event"])


@pytest.mark.parametrize("blocks", [True, False])
def test_lines_are_written_whole_in_pieces_that_a_pipe_keeps_together(
    monkeypatch: pytest.MonkeyPatch, *, blocks: bool
) -> None:
    # Each write is read by itself, as long as the pipe keeps it together (pipe(2), O_DIRECT).
    reading, writing = os.pipe2(os.O_DIRECT)
    os.set_blocking(writing, blocks)
    lines = b"".join(b"%d %s\n" % (n, b"x" * (n * 7919 % PIPE_BUF)) for n in range(500))
    pieces: list[bytes] = []

    def read() -> None:
        while piece := os.read(reading, 2 * PIPE_BUF):
            pieces.append(piece)

    reader = threading.Thread(target=read)
    with os.fdopen(reading, "rb"):
        with os.fdopen(writing, "w") as stream:
            monkeypatch.setattr(sys, "stderr", stream)
            reader.start()
            writer = Writer()
            writer.write(lines)
            writer.flush(LONG_SECONDS)
        reader.join()
    assert b"".join(pieces) == lines
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert len(pieces) < 500, "short lines go together"


def test_lines_for_which_there_is_no_room_are_lost_and_counted_in_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pipe(monkeypatch) as reader:
        writer = Writer(most=32 * PIPE_BUF)  # twice as much as a pipe has room for
        writer.write(32 * PAGE)
        writer.write(b"lost\nlost\n")
        writer.write(b"lost\n")
        assert reader.read(PIPE_BUF) == PAGE
        rest = b""
        while rest.count(b"\n") < 32:
            rest += reader.read(PIPE_BUF)
        assert rest.startswith(31 * PAGE)
        assert told(rest[31 * PIPE_BUF :]) == "lines of the log were lost: 3"
        writer.write(b"found\n")
        assert reader.read(PIPE_BUF) == b"found\n"


ENDS = f"""
from granian.log import LogLevels, configure_logging
from portico import logs
logs.LAST_SECONDS = {LONG_SECONDS}
logs.configure("info")
configure_logging(LogLevels.info, None, False)  # as each listener does, for the whole process
for _ in range(32):  # twice as much as a pipe has room for
    logs.write(b"x" * {PIPE_BUF - 1} + b"\\n")
print("ends", flush=True)
"""


def test_the_end_of_a_process_that_has_served_waits_for_its_last_lines() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDS], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ends\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        assert process.stderr.read() == 32 * PAGE


def test_no_secret_stands_in_what_an_error_says_that_is_logged() -> None:
    error = ValueError("postgres://ann:hunter2@db/portico refused sk_live_0123456789")
    record = logging.getLogger("portico").makeRecord(
        "portico", logging.ERROR, __file__, 1, "a job failed", (), (ValueError, error, None)
    )
    line = json.loads(JsonLines().format(record))
    said = "ValueError: postgres://(redacted)@db/portico refused (redacted)"
    assert line["exception"].endswith(said)
