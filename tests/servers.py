"""Real servers for tests, each in a temporary directory and on a free loopback port."""

import atexit
import itertools
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import ports

READY_SECONDS = 30.0
POSTGRES_AT_LEAST = 14


class Server:
    """A process that can be stopped, and started again on the same port with the same files."""

    name: str
    user: int | None = None
    """The user and group to run as; None for the current ones."""
    group: int | None = None
    environment: Mapping[str, str] | None = None
    """The whole environment; None for the current one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server and waits until it answers. Raises RuntimeError with its log if it
        fails."""
        log = self.directory / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(),
                stdout=output,
                stderr=output,
                cwd=self.directory,
                env=self.environment,
                user=self.user,
                group=self.group,
            )
        deadline = time.monotonic() + READY_SECONDS
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not start:\n{log.read_text()}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Ends the process by the signal `how`, and waits for its end."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(READY_SECONDS)
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freezes the process and its children during the block: connections are accepted but never
        answered."""
        tree = self._processes()
        _signal(tree, signal.SIGSTOP)  # parents first, so that they start no more children
        tree = self._processes()
        try:
            _signal(tree, signal.SIGSTOP)
            yield
        finally:
            _signal(tree, signal.SIGCONT)

    def _belongs_to_postgres(self) -> None:
        """Makes it run as another user if we are root, since PostgreSQL refuses to run as root."""
        if os.geteuid() == 0:
            known = {entry.pw_name: entry for entry in pwd.getpwall()}
            account = known.get("postgres") or known["nobody"]
            self.user, self.group = account.pw_uid, account.pw_gid
            os.chown(self.directory, self.user, self.group)

    def _processes(self) -> list[int]:
        """The process and its children."""
        assert self._process is not None
        return family(self._process.pid)

    def _command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it is ready."""
        raise NotImplementedError


class RedisServer(Server):
    """Redis or Valkey. It stores nothing on disk, so stopping it loses everything."""

    name = "redis-server"

    def __init__(self, directory: Path, *options: str) -> None:
        """`options` are arguments of its command line, such as `--replicaof`."""
        directory.mkdir(exist_ok=True)
        super().__init__(directory)
        self._options = options

    @property
    def url(self) -> str:
        """The address of database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            raise RuntimeError("there is no redis-server here: apt-get install redis-server")
        options = {"--port": str(self.port), "--bind": "127.0.0.1", "--save": ""}
        return [program, *itertools.chain.from_iterable(options.items()), *self._options]

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


class SentinelServer(RedisServer):
    """A Sentinel of the servers around `primary`. A `quorum` of Sentinels decides which of them is
    the primary."""

    def __init__(self, directory: Path, primary: RedisServer, name: str, quorum: int = 1) -> None:
        super().__init__(directory, "--sentinel")
        self._file = directory / "sentinel.conf"  # the Sentinel rewrites it
        self._file.write_text(
            f"port {self.port}\nbind 127.0.0.1\n"
            f"sentinel monitor {name} 127.0.0.1 {primary.port} {quorum}\n"
            f"sentinel down-after-milliseconds {name} 500\n"
        )

    def _command(self) -> list[str]:
        program, *_ = super()._command()
        return [program, str(self._file), *self._options]


class PgBouncer(Server):
    """A PgBouncer in transaction mode that keeps no prepared statements, with two PostgreSQL
    sessions for all clients."""

    name = "pgbouncer"

    def __init__(self, directory: Path, database: "PostgresServer", ignored: str) -> None:
        """`ignored` are startup parameters that it drops; it refuses all others."""
        super().__init__(directory)
        self.user, self.group = database.user, database.group
        if self.user is not None and self.group is not None:
            os.chown(directory, self.user, self.group)
        self._program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        if self._program is None:
            raise RuntimeError("there is no pgbouncer here: apt-get install pgbouncer")
        told = subprocess.run(
            [self._program, "--version"], capture_output=True, text=True, check=True
        )
        release = tuple(map(int, re.findall(r"\d+", told.stdout)[:2]))
        prepared = "max_prepared_statements = 0\n" if release >= (1, 21) else ""
        (directory / "users").write_text(f'"postgres" "{database.password}"\n')
        (directory / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={database.port}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            "auth_type = plain\nauth_file = users\npool_mode = transaction\n"
            f"default_pool_size = 2\nignore_startup_parameters = {ignored}\n{prepared}"
        )

    def _command(self) -> list[str]:
        return [str(self._program), "pgbouncer.ini"]

    def answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


PASSWORD = secrets.token_hex(16)
"""That of the superuser of every PostgreSQL server."""


@cache
def initialized(user: int | None, group: int | None) -> Path:
    """The data directory of a PostgreSQL server that was never started."""
    directory = Path(tempfile.mkdtemp(prefix="portico-postgres-new-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    binaries, version = postgres_binaries()
    password_file = directory / "password"
    password_file.write_text(PASSWORD)
    if user is not None and group is not None:
        for path in (directory, password_file):
            os.chown(path, user, group)
    locale = ["--locale=C.UTF-8"]
    if version > POSTGRES_AT_LEAST:  # 14 knows only the locales of the system
        locale += ["--locale-provider=icu", "--icu-locale=en"]
    # Not scram: its hashing would take longer than the tests.
    login = ["-U", "postgres", "--auth=password", "--pwfile", str(password_file)]
    subprocess.run(
        [binaries / "initdb", "-D", directory / "data", "-E", "UTF8", "--no-sync", *locale, *login],
        cwd=directory,
        check=True,
        stdout=subprocess.DEVNULL,
        user=user,
        group=group,
    )
    return directory / "data"


class PostgresServer(Server):
    """A PostgreSQL server. Its default collation is English, not by code points, so that tests
    notice SQL that depends on the collation."""

    name = "postgres"

    def __init__(self, directory: Path, *, fsync: bool, primary: "PostgresServer | None") -> None:
        """With `primary`, this is a standby of it."""
        super().__init__(directory)
        self._binaries, _ = postgres_binaries()
        self._fsync = fsync
        self.password: str = primary.password if primary else PASSWORD
        self._numbers = itertools.count(1)
        self._belongs_to_postgres()
        if primary:
            copy = ("-D", "data", "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
            self._run("pg_basebackup", *copy, port=primary.port)
            return
        # To copy a cluster takes a tenth of the time of making one.
        made = initialized(self.user, self.group)
        subprocess.run(
            ["cp", "-a", made, directory / "data"], check=True, user=self.user, group=self.group
        )

    @property
    def url(self) -> str:
        """The address of the database `postgres`, for the superuser."""
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    def promote(self) -> None:
        """Promotes a standby."""
        self._run("pg_ctl", "promote", "-D", "data", "--no-wait")

    def fresh_database(self, template: str | None = None) -> str:
        """Creates an empty database, or a copy of the one at the address `template`, which must not
        be in use. Returns its address."""
        name = f"fresh_{next(self._numbers)}"
        copied = ["--template", template.rpartition("/")[2]] if template else []
        self._run("createdb", *copied, name)
        return self.url.removesuffix("postgres") + name

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.directory),
            "max_connections": "300",  # the servers of a dozen tests use it at one time
        }
        if not self._fsync:  # commits survive a crash of the server, but not of the machine
            settings["fsync"] = "off"
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return [str(self._binaries / "postgres"), "-D", "data", "-p", str(self.port), *options]

    def answers(self) -> bool:
        program = self._binaries / "pg_isready"
        asked = subprocess.run(
            [program, "-h", "127.0.0.1", "-p", str(self.port)], capture_output=True, check=False
        )
        return asked.returncode == 0

    def _run(self, program: str, *arguments: str, port: int | None = None) -> None:
        where = {"PGHOST": "127.0.0.1", "PGPORT": str(port or self.port), "PGUSER": "postgres"}
        done = subprocess.run(
            [self._binaries / program, *arguments],
            cwd=self.directory,
            env={**os.environ, **where, "PGPASSWORD": self.password},
            capture_output=True,
            check=False,
            text=True,
            user=self.user,
            group=self.group,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stdout}{done.stderr}")


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    """A running Redis or Valkey server. Raises RuntimeError if neither is installed."""
    with tempfile.TemporaryDirectory(prefix="portico-redis-") as directory:
        server = RedisServer(Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.stop()


@contextmanager
def redis_servers(*options: Sequence[str]) -> Iterator[list[RedisServer]]:
    """Running servers, one for each of `options`, which are arguments of its command line."""
    with tempfile.TemporaryDirectory(prefix="portico-redis-") as directory, ExitStack() as stack:
        servers: list[RedisServer] = []
        for number, words in enumerate(options):
            servers.append(RedisServer(Path(directory, str(number)), *words))
            stack.callback(servers[-1].stop)
            servers[-1].start()
        yield servers


@contextmanager
def pgbouncer(database: PostgresServer, ignored: str = "") -> Iterator[PgBouncer]:
    """A running PgBouncer in front of `database`. Raises RuntimeError if it is not installed."""
    with tempfile.TemporaryDirectory(prefix="portico-pgbouncer-") as directory:
        server = PgBouncer(Path(directory), database, ignored)
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGKILL)  # for others it may wait for clients, by its release


@contextmanager
def postgres_server(
    *, fsync: bool = False, primary: PostgresServer | None = None
) -> Iterator[PostgresServer]:
    """A running PostgreSQL server, or a standby of `primary`. Raises RuntimeError unless version 14
    or later is installed."""
    with tempfile.TemporaryDirectory(prefix="portico-postgres-") as directory:
        server = PostgresServer(Path(directory), fsync=fsync, primary=primary)
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # immediate, since its files are removed anyway


def family(pid: int) -> list[int]:
    """A process and its children."""
    found = [pid]
    for children in Path("/proc").glob(f"{pid}/task/*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, children.read_text().split())
    return found


def _signal(processes: Iterable[int], number: signal.Signals) -> None:
    """Sends a signal to those processes that still exist."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def free_port() -> int:
    """A port for this server only, as is the one 10,000 above it, where nodes of a cluster talk.
    Both are below the system's ephemeral ports, so that a stopped server's port is still free when
    it starts again."""
    return ports.free_port(range(20_000, 22_700), 10_000)


def postgres_binaries() -> tuple[Path, int]:
    """The directory of the newest installed PostgreSQL, and its major version."""
    found = []
    on_path = shutil.which("postgres")
    installed = [
        *Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        *Path("/usr").glob("pgsql-*/bin/postgres"),
    ]
    for program in [*installed, *([Path(on_path).resolve()] if on_path else [])]:
        told = subprocess.run([program, "--version"], capture_output=True, check=True, text=True)
        if number := re.search(r"\d+", told.stdout):
            found.append((int(number[0]), program.parent))
    version, directory = max(found, default=(0, Path()))
    if version < POSTGRES_AT_LEAST:
        raise RuntimeError(
            f"there is no PostgreSQL {POSTGRES_AT_LEAST} or later here: apt-get install postgresql"
        )
    return directory, version
