"""The cluster: three Portico hosts behind HAProxy, and their stores."""

import asyncio
import json
import os
import secrets
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import asyncpg

from cluster.stores import (
    ROOT,
    ClusterError,
    Counters,
    Etcd,
    PatroniServer,
    program,
    started,
    status_of,
    until,
)
from servers import Server, free_port

PORTICO = (sys.executable, "-m", "portico")
HOSTS = ("one", "two", "three")
UNBOUNDED = "[plans.enterprise]\nper_minute = 1000000000\nper_day = 1000000000\n"
Say = Callable[[str], None]


class Host(Server):
    """A `portico serve` with its own data directory."""

    name = "portico"

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        """`settings` by their names in `portico.toml`."""
        directory.mkdir(mode=0o700)
        super().__init__(directory)
        (directory / "portico.toml").write_text(UNBOUNDED)
        own = {"data": str(directory / "data"), "port": str(self.port), "log_requests": "off"}
        kept = {name: value for name, value in os.environ.items() if "PORTICO" not in name}
        given = {f"PORTICO_{name.upper()}": value for name, value in {**settings, **own}.items()}
        self.environment = kept | given
        self.authority = directory / "data" / "tls" / "ca.pem"

    def having(self, **settings: Path) -> None:
        """Adds settings for the next start."""
        given = {f"PORTICO_{name.upper()}": str(value) for name, value in settings.items()}
        self.environment = {**(self.environment or {}), **given}

    def run(self, *words: str) -> str:
        """The output of a `portico` command. Raises ClusterError if it fails."""
        done = subprocess.run(
            [*PORTICO, *words],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterError(f"portico {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def _command(self) -> list[str]:
        return [*PORTICO, "serve"]

    def answers(self) -> bool:
        trusting = ssl.create_default_context(cafile=self.authority)
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=3, context=trusting)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


class Balancer(Server):
    """HAProxy, configured by `deploy/haproxy.cfg`."""

    name = "haproxy"

    def __init__(self, directory: Path, retries: int = 2) -> None:
        directory.mkdir(mode=0o700)
        super().__init__(directory)
        self.status_port = free_port()
        self._retries = retries

    def stands_before(self, hosts: list[Host]) -> None:
        """Sets the hosts to balance; the certificate is that of the first one."""
        tls = hosts[0].authority.parent
        pair = self.directory / "portico.pem"
        pair.touch(mode=0o600)
        pair.write_text((tls / "server.pem").read_text() + (tls / "server.key").read_text())
        self.environment = {
            **os.environ,
            "FRONT_LISTEN": f"127.0.0.1:{self.port}",
            "FRONT_STATUS": f"127.0.0.1:{self.status_port}",
            "FRONT_CERTIFICATE": str(pair),
            "FRONT_AUTHORITY": str(tls / "ca.pem"),
            "FRONT_NAME": "localhost",
            "FRONT_RETRIES": str(self._retries),
            "FRONT_REQUESTS": "1000000",  # all load comes from one address
            **{
                f"FRONT_{name.upper()}": f"127.0.0.1:{host.port}"
                for name, host in zip(HOSTS, hosts, strict=True)
            },
        }

    def _command(self) -> list[str]:
        return [program("haproxy"), "-db", "-f", str(ROOT / "deploy" / "haproxy.cfg")]

    def answers(self) -> bool:
        return status_of(self.status_port, "/") == 200


class Cluster:
    """The running cluster. `key` is the first admin's live key; `email` and `password` are theirs
    too."""

    def __init__(self, directory: Path, open_: ExitStack, say: Say, retries: int = 2) -> None:
        """Starts everything in a directory that all users may enter; `open_` stops it. `retries` is
        how often HAProxy retries a request if a host does not answer."""
        say("etcd")
        etcd = Etcd(directory / "etcd")
        started(etcd, open_)
        passwords = secrets.token_hex(16), secrets.token_hex(16)
        self.postgres = [PatroniServer(directory / f"pg{n}", etcd, passwords) for n in (1, 2)]
        say("PostgreSQL: a primary")
        started(self.postgres[0], open_)
        until(lambda: self.postgres[0].is_primary, "the primary of PostgreSQL")
        say("PostgreSQL: a synchronous standby")
        started(self.postgres[1], open_)
        until(lambda: self.postgres[1].is_synchronous, "the standby of PostgreSQL")
        say("Redis: a primary, two replicas, three Sentinels")
        self.counters = Counters(directory, open_)
        until(self.counters.whole, "the replicas of Redis")
        self.balancer = Balancer(directory / "haproxy", retries)
        settings = self._settings(directory)
        self.hosts = [Host(directory / name, settings) for name in HOSTS]
        say("Portico: the first admin, and three hosts")
        facts = json.loads(self.hosts[0].run("init", "--json"))
        self.key: str = facts["keys"]["live"]
        self.email: str = facts["admin"]["email"]
        self.password: str = facts["admin"]["password"]
        tls = self.hosts[0].authority.parent
        for host in self.hosts[1:]:
            host.having(tls_cert=tls / "server.pem", tls_key=tls / "server.key")
            host.authority = tls / "ca.pem"
        for host in self.hosts:
            started(host, open_)
        say("HAProxy")
        self.balancer.stands_before(self.hosts)
        started(self.balancer, open_)
        until(self.whole, "the hosts behind HAProxy")

    @property
    def origin(self) -> str:
        """The address for clients."""
        return f"https://localhost:{self.balancer.port}"

    @property
    def authority(self) -> Path:
        """The certificate authority that clients trust."""
        return self.hosts[0].authority

    @property
    def primary(self) -> PatroniServer:
        """PostgreSQL's primary."""
        return next(server for server in self.postgres if server.is_primary)

    @property
    def standby(self) -> PatroniServer:
        """PostgreSQL's standby."""
        return next(server for server in self.postgres if not server.is_primary)

    def whole(self) -> bool:
        """Whether all parts are available."""
        return (
            all(host.answers() for host in self.hosts)
            and sorted(one.is_primary + 2 * one.is_synchronous for one in self.postgres) == [1, 2]
            and self.counters.whole()
        )

    def _settings(self, directory: Path) -> dict[str, str]:
        """The settings of all hosts. Creates the role and database that they share."""
        password = secrets.token_hex(16)
        asyncio.run(_make_database(self.postgres[0].url, password))
        secret = directory / "secret"
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32))
        places = ",".join(f"127.0.0.1:{server.port}" for server in self.postgres)
        paths = {
            "base": "/v1",
            "sandbox": "/sandbox/v1",
            "auth": "/auth",
            "dashboard": "/dashboard",
        }
        return {
            "database_url": f"postgresql://portico:{password}@{places}/portico",
            "database_read_url": f"postgresql://portico:{password}@{places}/portico",
            "valkey_url": self.counters.url,
            "secret_key_file": str(secret),
            "trusted_proxies": "127.0.0.1",
            **{f"{name}_url": f"{self.origin}{path}" for name, path in paths.items()},
        }


async def _make_database(url: str, password: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE ROLE portico LOGIN PASSWORD '{password}'")
    await connection.execute("CREATE DATABASE portico OWNER portico")
    await connection.close()
