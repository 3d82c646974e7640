"""The command line without the interpreter's start.

Commands are forks of one process that has imported all of Portico, which takes a tenth of the time
of a start. Each has a process, directory, environment and output of its own, as always.
"""

import array
import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

LONGEST = 2**20
"""The bytes of the longest request."""


class Forked:
    """A command that runs: as much of `subprocess.Popen` as tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: dict[str, str],
        output: IO[bytes],
        errors: IO[bytes],
    ) -> None:
        told, tells = os.pipe()
        self._told = os.fdopen(told, "rb", buffering=0)
        self._code: int | None = None
        request = json.dumps([arguments, str(directory), environment]).encode()
        try:
            with _sending:
                socket.send_fds(_first(), [request], [output.fileno(), errors.fileno(), tells])
        finally:
            os.close(tells)
        self.pid = self._number()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self._code is None and select.select([self._told], [], [], 0)[0]:
            self._code = self._number()
            self._told.close()
        return self._code

    def wait(self, seconds: float | None = None) -> int:
        """The exit code, once it has ended. Raises `TimeoutError` when that takes longer than
        `seconds`."""
        if self._code is None and not select.select([self._told], [], [], seconds)[0]:
            raise TimeoutError(f"process {self.pid}: not done within {seconds} s")
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to it, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        (number,) = array.array("i", self._told.read(array.array("i").itemsize))
        return number


def run(
    arguments: Sequence[str], directory: Path, environment: dict[str, str], seconds: float
) -> "subprocess.CompletedProcess[str]":
    """One command, to its end. Raises `TimeoutError` when that takes longer than `seconds`."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        code = Forked(arguments, directory, environment, output, errors).wait(seconds)
        said = [_text(file) for file in (output, errors)]
    return subprocess.CompletedProcess(["portico", *arguments], code, *said)


_sending = threading.Lock()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@cache
def _first() -> socket.socket:
    """The connection to the process that all commands come from."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(connection: socket.socket) -> None:
    """Starts a command for each request, until the tests have ended."""
    import portico

    for module in pkgutil.walk_packages(portico.__path__, "portico."):
        if module.name != "portico.__main__":
            importlib.import_module(module.name)
    gc.freeze()  # so that no end of a command takes all of it apart
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    while True:
        request, files, _, _ = socket.recv_fds(connection, LONGEST, 3)
        if not request:
            return
        if os.fork() == 0:
            connection.close()
            _watch(request, *files)
        for file in files:
            os.close(file)


def _watch(request: bytes, output: int, errors: int, tells: int) -> None:
    """Runs a command in a child, and tells its id and, in the end, its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it was started unheard
    child = os.fork()
    if child == 0:
        os.close(tells)
        arguments, directory, environment = json.loads(request)
        _become(arguments, directory, environment, output, errors)
    os.write(tells, array.array("i", [child]).tobytes())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(tells, array.array("i", [code]).tobytes())
    os._exit(0)


def _become(
    arguments: list[str], directory: str, environment: dict[str, str], output: int, errors: int
) -> None:
    """Is this command from now on."""
    from portico.cli.main import main

    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for file, number in ((output, 1), (errors, 2)):
        os.dup2(file, number)
        os.close(file)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), "utf-8", write_through=True)
    sys.argv = ["portico", *arguments]
    sys.exit(main())


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
