"""How lines of the log are written where several processes share a pipe."""

import errno
import json
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from select import PIPE_BUF

import pytest

from portico import logs


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was lost yet."""
    monkeypatch.setattr(logs._Output, "hurried_until", 0.0)  # noqa: SLF001 - of the process


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


def test_lines_that_nobody_reads_are_lost_and_hold_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "w", 1) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(logging.root, "handlers", [])
        monkeypatch.setattr(logging.root, "level", logging.INFO)
        logs.configure("info")
        lines = 100 * (b"x" * (PIPE_BUF - 1) + b"\n")  # more than a pipe has room for
        with pytest.raises(BlockingIOError):
            logs.write(lines)
        logging.warning("lost")
        os.read(reading, len(lines))
        logging.warning("found")
        assert json.loads(os.read(reading, PIPE_BUF))["event"] == "found"


def test_who_reads_the_log_slowly_holds_up_nobody_again(monkeypatch: pytest.MonkeyPatch) -> None:
    page = b"x" * (PIPE_BUF - 1) + b"\n"
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(logs, "PATIENCE_SECONDS", 0.0)
        with pytest.raises(BlockingIOError):
            logs.write(100 * page)  # more than a pipe has room for
        monkeypatch.setattr(logs, "PATIENCE_SECONDS", 60.0)
        begun = time.monotonic()
        for _ in range(3):
            os.read(reading, PIPE_BUF)
            with pytest.raises(BlockingIOError):
                logs.write(2 * page)
        assert time.monotonic() - begun < 60.0


@pytest.mark.parametrize("pages", [0, 14])
def test_a_line_longer_than_the_room_in_its_pipe_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    ends: list[int | None] = []

    def write() -> None:
        try:
            logs.write(b"long" * 8 * PIPE_BUF + b"\n")
        except OSError as error:
            ends.append(error.errno)

    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb"):
        monkeypatch.setattr(sys, "stderr", stream)
        os.write(writing, b"x" * pages * PIPE_BUF)
        writer = threading.Thread(target=write)
        writer.start()
        writer.join(10 * logs.PATIENCE_SECONDS)
        assert ends == [errno.EAGAIN]
        os.read(reading, 16 * PIPE_BUF)
        logs.write(b"next\n")
        assert os.read(reading, PIPE_BUF) == b"\nnext\n"


def test_room_that_another_process_takes_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    page = b"x" * (PIPE_BUF - 1) + b"\n"
    reading, writing = os.pipe()
    ends: list[int | None] = []
    put = os.write

    def put_after_another(descriptor: int, data: bytes) -> int:
        if not ends:
            ends.append(put(writing, page))
        return put(descriptor, data)

    def write() -> None:
        try:
            logs.write(page)
        except OSError as error:
            ends.append(error.errno)

    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb"):
        monkeypatch.setattr(sys, "stderr", stream)
        os.write(writing, 15 * page)  # room for one is left
        monkeypatch.setattr(os, "write", put_after_another)
        writer = threading.Thread(target=write)
        writer.start()
        writer.join(10 * logs.PATIENCE_SECONDS)
        assert ends == [PIPE_BUF, errno.EAGAIN]
        assert os.get_blocking(writing), "others have the same pipe"


def test_lines_are_written_however_many_files_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4_096, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        reading, writing = os.pipe()
        stack.enter_context(os.fdopen(reading, "rb"))
        monkeypatch.setattr(sys, "stderr", stack.enter_context(os.fdopen(writing, "w")))
        for _ in range(1_024):
            stack.callback(os.close, os.dup(reading))
        logs.write(b"whole\n")
        assert os.read(reading, PIPE_BUF) == b"whole\n"


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


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Lets no file grow beyond so many bytes: a write ends half-way, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_line_that_found_no_room_takes_none_with_it_that_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "log"
    with file.open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        logs.write(b"first\n")
        with room_for(9):
            for _ in range(2):
                with pytest.raises(OSError, match="File too large"):
                    logs.write(b"second\n")
        with room_for(10), pytest.raises(OSError, match="File too large"):
            logs.write(b"third\n")
        logs.write(b"fourth\n")
        logs.write(b"fifth\n")
    assert file.read_text() == "first\nsec\nfourth\nfifth\n"
