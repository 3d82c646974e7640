"""How lines of the log are written where several processes share a pipe."""

import json
import logging
import os
import sys
import threading
from select import PIPE_BUF

import pytest

from portico import logs


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
            logs.write(lines)
        reader.join()
    assert b"".join(pieces) == lines
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert len(pieces) < 500, "short lines go together"


def test_a_line_that_no_pipe_keeps_together_is_written_all_the_same(
    capfd: pytest.CaptureFixture[str],
) -> None:
    lines = f"short\n{'long' * PIPE_BUF}\nshort\n"
    logs.write(lines.encode())
    assert capfd.readouterr().err == lines


def test_no_secret_stands_in_what_an_error_says_that_is_logged() -> None:
    error = ValueError("postgres://ann:hunter2@db/portico refused sk_live_0123456789")
    record = logging.getLogger("portico").makeRecord(
        "portico", logging.ERROR, __file__, 1, "a job failed", (), (ValueError, error, None)
    )
    line = json.loads(logs.JsonLines().format(record))
    said = "ValueError: postgres://(redacted)@db/portico refused (redacted)"
    assert line["exception"].endswith(said)
