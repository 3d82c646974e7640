"""Starts, watches and stops the measured servers, each on the server's core."""

import contextlib
import functools
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

SERVER_CPU = "0"
LOAD_CPU = "1"
START_SECONDS = 60.0
STOP_SECONDS = 15.0


class BenchError(Exception):
    """Something that was to be measured does not work; the message says what."""


@functools.cache
def anything_goes() -> ssl.SSLContext:
    """A TLS client that verifies nothing: each server here has a self-made certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True)
class Address:
    """The address of a server, and the headers of each request to it."""

    port: int
    tls: bool
    headers: Mapping[str, str]

    @property
    def origin(self) -> str:
        """The origin, such as `https://localhost:8443`."""
        return f"{'https' if self.tls else 'http'}://localhost:{self.port}"

    def connect(self, timeout: float = 30.0) -> HTTPConnection:
        """A new connection, which is not open yet."""
        if self.tls:
            return HTTPSConnection("localhost", self.port, timeout=timeout, context=anything_goes())
        return HTTPConnection("localhost", self.port, timeout=timeout)

    def get(self, path: str, timeout: float = 30.0) -> tuple[int, bytes]:
        """Sends a request on a new connection. Returns status and body."""
        connection = self.connect(timeout)
        try:
            connection.request("GET", path, headers=dict(self.headers))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def free_port() -> int:
    """A port that is currently free."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


BOTH_CPUS = f"{SERVER_CPU},{LOAD_CPU}"


def on_server_cpu(argv: Sequence[str], cpus: str = SERVER_CPU) -> list[str]:
    """The command, pinned to the server's core."""
    return ["taskset", "-c", cpus, *argv]


@dataclass(frozen=True)
class Running:
    """A running server."""

    name: str
    address: Address
    process: subprocess.Popen[bytes]
    start_seconds: float
    """The time from the start of the process to its first 200."""

    def memory_kib(self) -> int:
        """Resident memory of the process and all its descendants."""
        return sum(_resident_kib(pid) for pid in _tree(self.process.pid))

    def cpu_seconds(self) -> float:
        """Processor time that the process and all its descendants have used so far."""
        return cpu_seconds(self.process.pid)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process and all its descendants have used so far."""
    return sum(_cpu_seconds(one) for one in _tree(pid))


def _tree(pid: int) -> list[int]:
    pids = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                pids += _tree(int(child))
    return pids


def _resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def _cpu_seconds(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the process has ended meanwhile
        return 0.0
    # The name, which may contain spaces, ends at the last bracket; user and system time follow.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that was started in its own session, and all its children."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _first_answer(name: str, address: Address, path: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    status = None
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise BenchError(f"{name} ended with exit code {process.returncode}")
        with contextlib.suppress(OSError, HTTPException):
            status, _ = address.get(path, timeout=5.0)
            if status == 200:
                return
        time.sleep(0.005)
    raise BenchError(f"{name} did not answer {path} with 200 (last: {status})")


@contextlib.contextmanager
def running(
    name: str,
    argv: Sequence[str],
    address: Address,
    *,
    probe: str,
    log: Path,
    env: Mapping[str, str] | None = None,
    cpus: str = SERVER_CPU,
) -> Iterator[Running]:
    """Starts `argv` on `cpus`, yields once `probe` answers 200, and stops it at the end.

    The server's output goes to `log`. If it does not start, the error has the last lines. At the
    end `log` is removed, since a line for each request makes it large.
    """
    with log.open("ab") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            on_server_cpu(argv, cpus),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    try:
        try:
            _first_answer(name, address, probe, process)
        except BenchError as error:
            said = log.read_text(errors="replace").splitlines()[-8:]
            raise BenchError("\n  ".join([str(error), *said])) from None
        yield Running(name, address, process, time.perf_counter() - started)
    finally:
        stop(process)
        log.unlink(missing_ok=True)
