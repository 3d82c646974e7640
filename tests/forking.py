"""Runs commands without starting an interpreter for each.

Commands are forks of one process that has imported all of Portico, which takes a tenth of the time
of a start. Each still has its own process, directory, environment and output.
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
import selectors
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
"""The longest request, in bytes."""


class Forked:
    """A running command, with the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: dict[str, str],
        output: IO[bytes],
        errors: IO[bytes],
        given: IO[bytes] | None = None,
    ) -> None:
        """`given` is its standard input, by default nothing."""
        told, tells = os.pipe()
        self._told = os.fdopen(told, "rb", buffering=0)
        self._code: int | None = None
        request = json.dumps([arguments, str(directory), environment]).encode()
        try:
            with _sending:
                source = _nothing() if given is None else given.fileno()
                streams = [source, output.fileno(), errors.fileno(), tells]
                socket.send_fds(_first(), [request], streams)
        except BaseException:
            self._told.close()
            raise
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
        """Waits for the end and returns the exit code. Raises `TimeoutError` after `seconds`."""
        if self._code is None and not select.select([self._told], [], [], seconds)[0]:
            raise TimeoutError(f"process {self.pid}: not done within {seconds} s")
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the command has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills the command, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        (number,) = array.array("i", self._told.read(array.array("i").itemsize))
        return number


def run(
    arguments: Sequence[str],
    directory: Path,
    environment: dict[str, str],
    seconds: float,
    given: bytes = b"",
) -> "subprocess.CompletedProcess[str]":
    """Runs a command with this standard input to its end. Raises `TimeoutError` after `seconds`."""
    temporary = tempfile.TemporaryFile
    with temporary() as source, temporary() as output, temporary() as errors:
        source.write(given)
        source.seek(0)
        code = Forked(arguments, directory, environment, output, errors, source).wait(seconds)
        said = [_text(file) for file in (output, errors)]
    return subprocess.CompletedProcess(["portico", *arguments], code, *said)


_sending = threading.Lock()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@cache
def _nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY)


@cache
def _first() -> socket.socket:
    """The connection to the process that forks all commands."""
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

    atexit.register(_leave)  # registered first, so it is called last
    for module in pkgutil.walk_packages(portico.__path__, "portico."):
        if module.name != "portico.__main__":
            importlib.import_module(module.name)
    importlib.import_module("portico.cli.commands").parser()  # created once for all commands
    gc.freeze()  # so that garbage collection in a fork copies no memory
    with selectors.DefaultSelector() as running:
        running.register(connection, selectors.EVENT_READ)
        while True:
            for key, _ in running.select():
                if key.fileobj is not connection:
                    running.unregister(key.fileobj)
                    _tell_end(key.fd, *key.data)
                elif not _start(connection, running):
                    return


def _start(connection: socket.socket, running: selectors.BaseSelector) -> bool:
    """Starts the next command and sends its process id. Returns False if there are no more."""
    request, files, _, _ = socket.recv_fds(connection, LONGEST, 4)
    if not request:
        return False
    *streams, tells = files
    child = os.fork()
    if child == 0:
        others = [key for key in running.get_map().values() if key.data]
        running.close()
        connection.close()
        for file in (tells, *(key.fd for key in others), *(key.data[1] for key in others)):
            os.close(file)
        arguments, directory, environment = json.loads(request)
        _become(arguments, directory, environment, streams)
    for file in streams:
        os.close(file)
    _tell(tells, child)
    running.register(os.pidfd_open(child), selectors.EVENT_READ, (child, tells))
    return True


def _tell_end(ended: int, child: int, tells: int) -> None:
    """Sends the exit code of a command that has ended."""
    _tell(tells, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.close(tells)
    os.close(ended)


def _tell(tells: int, number: int) -> None:
    """Sends a number to a test, if it still listens."""
    with suppress(BrokenPipeError):
        os.write(tells, array.array("i", [number]).tobytes())


def _become(
    arguments: list[str], directory: str, environment: dict[str, str], streams: list[int]
) -> None:
    """Turns this process into the command with these standard streams. Does not return."""
    from portico.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # even if it was ignored at the start
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), "utf-8")
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), "utf-8", write_through=True)
    sys.argv = ["portico", *arguments]
    try:
        code = main()
    except SystemExit as ended:  # as argparse raises for a wrong command line
        code = int(ended.code or 0)
    _ended.append(code)
    sys.exit(code)


_ended: list[int] = []
"""The exit code of the command in this process, once it has ended."""


def _leave() -> None:
    """Ends a command after its threads and its exit handlers, without tearing the interpreter down:
    that would copy all imported modules, and take longer than most commands."""
    if _ended:
        os._exit(_ended[0])


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
