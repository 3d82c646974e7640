"""Runs Portico as an operator does: commands as processes, the server over real TLS."""

import asyncio
import contextlib
import http.client
import inspect
import json
import os
import pty
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import apsw

import forking
import ports
from busy_machine import added

COMMAND = (sys.executable, "-m", "portico")
TIMEOUT_SECONDS = 60.0
"""How long anything that should be immediate may take on a busy machine."""


SERVES = re.compile(r"^Portico serves\b.*\n", re.MULTILINE)
"""The line that a server prints once it serves."""


def until(true: Callable[[], Any], what: str = "it", seconds: float = TIMEOUT_SECONDS) -> Any:
    """Waits until `true` returns something true, and returns that. Fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)
    return value


async def eventually(
    true: Callable[[], Any], what: str = "it", seconds: float = TIMEOUT_SECONDS
) -> Any:
    """Like `until`, in an event loop; `true` may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        value = true()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        await asyncio.sleep(0.01)


def early_in_a_minute() -> None:
    """Waits for the next minute if this one ends soon: for tests of counts per minute on servers
    whose clock cannot be moved."""
    until(lambda: time.time() % 60 < 50, "the next minute")


class Turns:
    """How often other tasks had a turn of the event loop."""

    count = 0


@asynccontextmanager
async def turns() -> AsyncIterator[Turns]:
    """Counts the turns of other tasks during the block."""
    seen = Turns()

    async def others() -> None:
        while True:
            seen.count += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    yield seen
    beside.cancel()


class Lateness:
    """How much too late this process was woken, in total."""

    seconds = 0.0


@contextmanager
def lateness() -> Iterator[Lateness]:
    """Measures what a busy machine adds to the block if the block itself keeps the machine busy:
    `busy_machine.added` would also count the time that it waits for its own work."""
    late, over = Lateness(), threading.Event()

    def watch() -> None:
        asleep = time.monotonic()
        while not over.wait(0.02):
            awake = time.monotonic()
            late.seconds += max(awake - asleep - 0.03, 0.0)
            asleep = awake

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield late
    finally:
        over.set()
        thread.join()


def free_port() -> int:
    """A port for this test only, below the system's ephemeral ports and apart from those of the
    stores' servers."""
    return ports.free_port(range(22_700, 30_000))


@dataclass(frozen=True)
class Answer:
    """A response. The names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_stream(self) -> bool:
        """Whether its body is an endless stream of events."""
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body, as text."""
        return self.body.decode()

    @property
    def error(self) -> tuple[int, str]:
        """Its status and error code. Asserts that it has the error body (specification §7)."""
        assert set(self.json["error"]) == {"code", "message", "details"}
        assert self.headers["x-request-id"]
        return self.status, self.json["error"]["code"]

    @property
    def worker(self) -> str:
        """Identifies the process that answered: its request ids begin with the same digits."""
        return self.headers["x-request-id"][:16]


@dataclass(frozen=True)
class Installation:
    """A data directory and its settings. `facts` is the output of `init --json`."""

    directory: Path
    variables: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    path: Path | None = None
    """The `PATH` of commands; None for that of the tests."""

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    @property
    def key(self) -> str:
        """The first admin's live key."""
        return str(self.facts["keys"]["live"])

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands, without Portico's settings in the tests' environment."""
        kept = {name: value for name, value in os.environ.items() if "PORTICO" not in name}
        given = {f"PORTICO_{name.upper()}": value for name, value in self.variables.items()}
        if self.path is not None:
            kept["PATH"] = str(self.path)
        own = {"PORT": str(self.port), "DATA": str(self.data), "DRAIN_SECONDS": "0"}
        return kept | {f"PORTICO_{name}": value for name, value in own.items()} | given

    def having(self, **variables: str) -> "Installation":
        """This installation with more settings."""
        return replace(self, variables={**self.variables, **variables})

    def prepared(self) -> "Installation":
        """This installation, after `portico init`."""
        return replace(self, facts=self.told("init"))

    def unlimited(self) -> "Installation":
        """This installation, whose first admin is never refused for the number of requests."""
        plan = "[plans.enterprise]\nper_minute = 1000000\nper_day = 1000000\n"
        (self.directory / "portico.toml").write_text(plan)
        return self

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Runs a command to its end."""
        return forking.run(arguments, self.directory, self.environment, TIMEOUT_SECONDS * 3)

    def told(self, *arguments: str) -> Any:
        """Runs a command that must succeed, and returns its JSON value."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def shell(self, commands: str, **variables: str) -> str:
        """Runs shell commands of a document, which must end well, and returns what they print. What
        they name is here: the port, the data and the program."""
        link = self.directory / "portico-data"
        if not link.exists():
            link.symlink_to(self.data)
        commands = commands.replace("localhost:8443", f"localhost:{self.port}")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.directory,
            env={**self.environment, "PATH": path, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        assert done.returncode == 0, (commands, done.stdout, done.stderr)
        return done.stdout

    def refused(self, *arguments: str) -> tuple[int, str]:
        """Runs a command that must fail with one line, and returns its exit code and that line."""
        done = self.run(*arguments)
        assert done.stderr.startswith("portico: "), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        return done.returncode, done.stderr.removeprefix("portico: ").rstrip("\n")

    @contextmanager
    def serving(
        self, *arguments: str, program: tuple[str, ...] | None = None
    ) -> Iterator["Service"]:
        """A running server, which is killed at the end unless it was stopped. It is a fork, like
        commands, or a new process of `program`."""
        service = Service(self, arguments, program)
        try:
            service.wait_until_ready()
            yield service
        finally:
            service.end()


class Service:
    """A server process and its output."""

    def __init__(
        self,
        installation: Installation,
        arguments: tuple[str, ...],
        program: tuple[str, ...] | None = None,
    ) -> None:
        self.installation = installation
        number = len(list(installation.directory.glob("log-*")))
        self._log = installation.directory / f"log-{number}"
        self._said = installation.directory / f"said-{number}"
        with self._log.open("wb") as log, self._said.open("wb") as said:
            place, variables = installation.directory, installation.environment
            self.process: forking.Forked | subprocess.Popen[bytes] = (
                forking.Forked(["serve", *arguments], place, variables, said, log)
                if program is None
                else subprocess.Popen(
                    [*program, *arguments], cwd=place, env=variables, stdout=said, stderr=log
                )
            )

    @property
    def said(self) -> str:
        """Its standard output."""
        return self._said.read_text()

    @property
    def text(self) -> str:
        """Its standard error, which is its log."""
        return self._log.read_text()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The complete lines of its log."""
        return [
            json.loads(line) for line in self.text.splitlines(keepends=True) if line[-1] == "\n"
        ]

    @contextmanager
    def saying(self, *words: str, times: int = 1) -> Iterator[None]:
        """Asserts that it prints these words so many times more, in the block or soon after."""
        expected = [self.said.count(word) + times for word in words]
        yield
        until(lambda: [self.said.count(word) for word in words] == expected, str(words), 20)

    def line_of(self, answer: Answer) -> dict[str, Any]:
        """Waits for the line about the request with this response, and returns it. Lines about
        errors of the request are others."""
        wanted = ("request", answer.headers["x-request-id"])
        found = until(
            lambda: [one for one in self.lines if (one["event"], one.get("request_id")) == wanted],
            "its log line",
        )
        assert len(found) == 1
        return dict(found[0])

    def wait_until_ready(self, seconds: float = TIMEOUT_SECONDS) -> None:
        """Waits until it serves. Fails with its log if it ends instead, or takes longer."""
        try:
            until(
                lambda: SERVES.search(self.said) or self.process.poll() is not None,
                "the start",
                seconds,
            )
        except AssertionError as late:
            raise AssertionError(f"{late}:\n{self.said}{self.text}") from None
        assert self.process.poll() is None, self.text

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Stops it by a signal. Returns its exit code and how many seconds it took, less what a
        busy machine added."""
        with added() as more:
            started = time.monotonic()
            self.process.send_signal(how)
            code = self.process.wait(TIMEOUT_SECONDS * 3)
            return code, time.monotonic() - started - more.seconds

    def end(self) -> None:
        """Kills it and its workers."""
        children = self.workers()
        self.process.kill()
        self.process.wait()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def workers(self) -> list[int]:
        """The ids of its child processes."""
        found: list[int] = []
        for children in Path("/proc").glob(f"{self.process.pid}/task/*/children"):
            with contextlib.suppress(OSError):
                found += map(int, children.read_text().split())
        return found

    def memory(self, pid: int | None = None) -> int:
        """Its resident memory in bytes, including shared memory."""
        status = Path(f"/proc/{pid or self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def trusting(self) -> ssl.SSLContext:
        """A TLS context that trusts the authority of the directory."""
        return ssl.create_default_context(cafile=self.installation.data / "tls" / "ca.pem")

    def connect(self, *, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """A TLS connection that trusts the authority of the directory, or with this context."""
        trusting = context or self.trusting()
        plain = self.connect_plain()
        try:
            return trusting.wrap_socket(plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise

    def connect_plain(self, port: int | None = None) -> socket.socket:
        """A connection without TLS."""
        address = ("127.0.0.1", port or self.installation.port)
        return socket.create_connection(address, timeout=TIMEOUT_SECONDS)

    @contextmanager
    def connected(self, workers: int, each: int) -> Iterator[list[ssl.SSLSocket]]:
        """So many connections to each of its workers. The system distributes connections at random:
        sometimes ten of ten go to one worker."""
        dealt: dict[str, list[ssl.SSLSocket]] = {}
        with contextlib.ExitStack() as stack:

            def are_enough() -> bool:
                connection = stack.enter_context(self.connect())
                worker = self.ask("/healthz", connection=connection).worker
                dealt.setdefault(worker, []).append(connection)
                return len(dealt) == workers and min(map(len, dealt.values())) >= each

            until(are_enough, "connections to every worker")
            yield [connection for some in dealt.values() for connection in some[:each]]

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        key: str | None = None,
        headers: dict[str, str] | None = None,
        body: Any = None,
        form: dict[str, str] | None = None,
        connection: socket.socket | None = None,
    ) -> Answer:
        """Sends a request with `body` as JSON, or with a `form`, over a new TLS connection unless
        one is given."""
        sent = b"" if body is None else json.dumps(body).encode()
        sent = sent if form is None else urlencode(form).encode()
        fields = {"host": "localhost", "content-length": str(len(sent))}
        if key is not None:
            fields["authorization"] = f"Bearer {key}"
        if body is not None:
            fields["content-type"] = "application/json"
        if form is not None:
            fields["content-type"] = "application/x-www-form-urlencoded"
        lines = [f"{name}: {value}\r\n" for name, value in {**fields, **(headers or {})}.items()]
        head = f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode()
        if connection is not None:
            connection.sendall(head + sent)
            return read_answer(connection, method)
        with self.connect() as opened:
            opened.sendall(head + sent)
            return read_answer(opened, method)

    def post(self, path: str, body: Any, **options: Any) -> Answer:
        """Sends a POST as the first admin, unless `options` (of `ask`) say other."""
        chosen = {"key": self.installation.key, **options}
        return self.ask(path, method="POST", body=body, **chosen)

    def make_product(self, name: str = "Lamp", **options: Any) -> int:
        """Creates a product, as the first admin unless `options` (of `ask`) say other; its id."""
        path = options.pop("path", "/v1/products")
        made = self.post(path, {"name": name, "category": "light", "price": 12.5}, **options)
        assert made.status == 201, made.text
        return int(made.json["data"]["id"])


def read_answer(connection: socket.socket, method: str = "GET") -> Answer:
    """The next response on a connection, with its body unless it is a stream, which is endless."""
    response = http.client.HTTPResponse(connection, method=method)
    try:
        response.begin()
        headers: dict[str, str] = {}
        for name, value in response.getheaders():
            earlier = headers.get(name.lower())
            headers[name.lower()] = value if earlier is None else f"{earlier}, {value}"
        answer = Answer(response.status, headers, b"")
        return answer if answer.is_stream else replace(answer, body=response.read())
    finally:
        response.close()


def in_database(file: Path, sql: str, *values: Any) -> Any:
    """The first result of one statement on a SQLite file, over a new connection."""
    connection = apsw.Connection(str(file))
    connection.set_busy_timeout(10_000)
    try:
        return connection.execute(sql, values).get
    finally:
        connection.close()


def damage(file: Path, name: str) -> None:
    """Overwrites the first page of a table or an index."""
    in_database(file, "PRAGMA journal_mode=DELETE")
    root = in_database(file, "SELECT rootpage FROM sqlite_schema WHERE name = ?", name)
    size = in_database(file, "PRAGMA page_size")
    with file.open("r+b") as pages:
        pages.seek((root - 1) * size)
        pages.write(b"\xff" * size)


def at_once(work: Callable[[int], Any], times: int) -> list[Any]:
    """The results of `work(0)` … `work(times - 1)`, each run in a thread."""
    results: list[Any] = [None] * times

    def one(number: int) -> None:
        results[number] = work(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def with_input(installation: Installation, text: bytes, *words: str) -> tuple[int, bytes, bytes]:
    """Runs a command with this standard input. Returns its exit code, output and error output."""
    place, variables = installation.directory, installation.environment
    done = forking.run(words, place, variables, TIMEOUT_SECONDS * 3, text)
    return done.returncode, done.stdout.encode(), done.stderr.encode()


def seen_on_a_terminal(installation: Installation, *words: str) -> tuple[int, str, str]:
    """The exit code, standard output, and what a terminal shows of standard error."""
    place, variables = installation.directory, installation.environment
    terminal, end = pty.openpty()
    with tempfile.TemporaryFile() as output:
        with os.fdopen(end, "wb") as errors:
            command = forking.Forked(words, place, variables, output, errors)
        seen = b""
        with contextlib.suppress(OSError):  # once the other end is closed
            while piece := os.read(terminal, 4096):
                seen += piece
        os.close(terminal)
        code = command.wait(TIMEOUT_SECONDS)
        output.seek(0)
        return code, output.read().decode(), seen.decode()


def copy_of(installation: Installation, directory: Path) -> Installation:
    """A copy of an installation with its data, in another directory and on another port."""
    shutil.copytree(installation.data, directory / "data")
    return replace(installation, directory=directory, port=free_port())


def contents(directory: Path) -> dict[str, bytes]:
    """The bytes of every file, except SQLite's shared files and the server's lock."""
    return {
        str(path): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal", "server.lock"))
    }


def bytes_in(directory: Path) -> bytes:
    """The bytes of all files of a directory, except those that a server removes meanwhile."""
    found = []
    for file in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            found.append(file.read_bytes())
    return b"".join(found)
