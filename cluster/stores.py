"""The stores: PostgreSQL under Patroni with etcd, and Valkey or Redis under Sentinels."""

import http.client
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from valkey import Valkey
from valkey.exceptions import ValkeyError

from servers import RedisServer, SentinelServer, Server, family, free_port, postgres_binaries

ROOT = Path(__file__).parent.parent
WHOLE_SECONDS = 120.0


class ClusterError(Exception):
    """A part of the cluster is missing or does not start; the message says which."""


def until(true: Callable[[], object], what: str, seconds: float = WHOLE_SECONDS) -> float:
    """Waits until `true` returns true, and returns how many seconds that took. Raises ClusterError
    after `seconds`."""
    begun = time.monotonic()
    while not true():
        if time.monotonic() - begun > seconds:
            raise ClusterError(f"{what}: not within {seconds:g} s")
        time.sleep(0.02)
    return time.monotonic() - begun


def status_of(port: int, path: str) -> int | None:
    """The status of a GET over plain HTTP, or None if there is no response within a second."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def program(name: str) -> str:
    """The path of a program, also one in /usr/sbin. Raises ClusterError if there is none."""
    if found := shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin"):
        return found
    raise ClusterError(f"there is no {name} here")


class Etcd(Server):
    """The store of Patroni's lease. One member, since everything runs on one machine."""

    name = "etcd"

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        super().__init__(directory)
        self._peers = free_port()

    def _command(self) -> list[str]:
        own, peers = (f"http://127.0.0.1:{port}" for port in (self.port, self._peers))
        options = {
            "name": "one",
            "data-dir": "data",
            "listen-client-urls": own,
            "advertise-client-urls": own,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"one={peers}",
        }
        return [program("etcd"), *(f"--{name}={value}" for name, value in options.items())]

    def answers(self) -> bool:
        return status_of(self.port, "/health") == 200


class PatroniServer(Server):
    """PostgreSQL under Patroni, configured by `deploy/patroni.yml`."""

    name = "patroni"

    def __init__(self, directory: Path, etcd: Etcd, passwords: tuple[str, str]) -> None:
        """`passwords` are those of `postgres` and of replication."""
        directory.mkdir()
        super().__init__(directory)
        self._belongs_to_postgres()
        self._api = free_port()
        self._superuser, replication = passwords
        settings = {
            "NAME": directory.name,
            "ETCD3_HOSTS": f"'127.0.0.1:{etcd.port}'",
            "RESTAPI_LISTEN": f"127.0.0.1:{self._api}",
            "RESTAPI_CONNECT_ADDRESS": f"127.0.0.1:{self._api}",
            "POSTGRESQL_LISTEN": f"127.0.0.1:{self.port}",
            "POSTGRESQL_CONNECT_ADDRESS": f"127.0.0.1:{self.port}",
            "POSTGRESQL_DATA_DIR": str(directory / "data"),
            "POSTGRESQL_BIN_DIR": str(postgres_binaries()[0]),
            "SUPERUSER_USERNAME": "postgres",
            "SUPERUSER_PASSWORD": self._superuser,
            "REPLICATION_USERNAME": "replicator",
            "REPLICATION_PASSWORD": replication,
        }
        own = {f"PATRONI_{name}": value for name, value in settings.items()}
        self.environment = {**os.environ, **own, "HOME": str(directory)}

    @property
    def url(self) -> str:
        """The address of the database `postgres`, for the superuser."""
        return f"postgresql://postgres:{self._superuser}@127.0.0.1:{self.port}/postgres"

    @property
    def is_primary(self) -> bool:
        """Whether it has the lease and accepts writes."""
        return status_of(self._api, "/primary") == 200

    @property
    def is_synchronous(self) -> bool:
        """Whether it is the synchronous standby, without which no commit is acknowledged."""
        return status_of(self._api, "/synchronous") == 200

    def kill_postgres(self) -> None:
        """Kills all processes of PostgreSQL at once, but not Patroni."""
        for pid in self._postgres():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Ends Patroni by `how`, then kills PostgreSQL."""
        super().stop(how)
        self.kill_postgres()
        until(lambda: not self._postgres(), "the end of PostgreSQL")

    def _postgres(self) -> list[int]:
        """PostgreSQL's processes, which are not children of Patroni; empty if it has ended."""
        with suppress(OSError, ValueError, IndexError):
            pid = int((self.directory / "data" / "postmaster.pid").read_text().splitlines()[0])
            if "postgres" in Path(f"/proc/{pid}/cmdline").read_text():
                return family(pid)
        return []

    def _processes(self) -> list[int]:
        return [*super()._processes(), *self._postgres()]

    def _command(self) -> list[str]:
        return [program("patroni"), str(self.directory / "patroni.yml")]

    def start(self) -> None:
        shutil.copy(ROOT / "deploy" / "patroni.yml", self.directory)
        super().start()

    def answers(self) -> bool:
        return status_of(self._api, "/health") == 200


class Counters:
    """A primary of Valkey or Redis, two replicas, and three Sentinels over them."""

    NAME = "portico"

    def __init__(self, directory: Path, open_: ExitStack) -> None:
        """Starts them; `open_` stops them."""
        kept = (
            *("--appendonly", "yes", "--repl-diskless-sync-delay", "0"),
            *("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"),
        )
        self.servers = [RedisServer(directory / "redis-1", *kept)]
        follows = ("--replicaof", "127.0.0.1", str(self.servers[0].port))
        self.servers += [RedisServer(directory / f"redis-{n}", *kept, *follows) for n in (2, 3)]
        self.sentinels = []
        for server in self.servers:
            started(server, open_)
        for number in (1, 2, 3):
            place = directory / f"sentinel-{number}"
            self.sentinels.append(SentinelServer(place, self.servers[0], self.NAME, quorum=2))
            started(self.sentinels[-1], open_)

    @property
    def url(self) -> str:
        """The value of `valkey_url`."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"valkey+sentinel://{hosts}/{self.NAME}"

    @property
    def primary(self) -> RedisServer:
        """The server that the Sentinels consider the primary."""
        with client_of(self.sentinels[0]) as asked:
            _, port = asked.sentinel_get_master_addr_by_name(self.NAME)
        return next(server for server in self.servers if server.port == port)

    @property
    def replica(self) -> RedisServer:
        """One of the replicas."""
        primary = self.primary
        return next(server for server in self.servers if server is not primary)

    def whole(self) -> bool:
        """Whether the primary has both replicas, and the Sentinels know each other."""
        try:
            with client_of(self.primary) as asked:
                told = asked.info("replication")
            with client_of(self.sentinels[0]) as asked:
                asked.sentinel_ckquorum(self.NAME)
                others = asked.sentinel_sentinels(self.NAME)
        except ValkeyError:
            return False
        online = [told.get(f"slave{n}", {}).get("state") for n in range(2)]
        return told["role"] == "master" and online == ["online"] * 2 and len(others) == 2


def started(server: Server, open_: ExitStack) -> None:
    """Starts a server; `open_` kills it."""
    open_.callback(server.stop, signal.SIGKILL)
    server.start()


def client_of(server: RedisServer) -> Any:
    """A context manager of a client, which it closes."""
    return closing(Valkey(port=server.port, socket_timeout=1, decode_responses=True))
