"""PostgreSQL and Valkey that demand TLS and a certificate of whoever comes."""

import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import asyncpg
import pytest

from portico.core.errors import Unavailable
from portico.core.plans import Plan
from portico.data.postgres.engine import PostgresDatabase
from portico.features.operations.commands.postgres_tools import dump
from portico.limits.protocol import ACCOUNT
from portico.limits.valkey import ValkeyLimiter
from servers import PostgresServer, free_port, redis_servers

MIDNIGHT = 20_800 * 86_400_000
CLIENT = "portico"
SETTINGS = {
    "ssl_cert_file": "server.pem",
    "ssl_key_file": "server.key",
    "ssl_ca_file": "ca.pem",
    "ssl": "on",
}


@dataclass(frozen=True)
class Authority:
    """An authority, what it signed for a server at 127.0.0.1, and for the client."""

    directory: Path

    def __post_init__(self) -> None:
        self.directory.mkdir()
        self._certify("ca", "-addext", "basicConstraints=critical,CA:TRUE")
        for name in ("server", CLIENT):
            self._certify(name, "-CA", "ca.pem", "-CAkey", "ca.key")

    def _certify(self, name: str, *options: str) -> None:
        request = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ]
        files = ["-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"]
        names = ["-addext", "subjectAltName=IP:127.0.0.1", *options]
        subprocess.run([*request, *files, *names], cwd=self.directory, check=True)

    def file(self, name: str) -> Path:
        return self.directory / name


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("secured") / "authority")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One that nobody has reason to trust."""
    return Authority(tmp_path_factory.mktemp("other") / "authority")


@pytest.fixture
async def secured(postgres: PostgresServer, authority: Authority) -> AsyncIterator[str]:
    """A database that only the client's certificate opens."""
    data = postgres.directory / "data"
    for name in ("ca.pem", "server.pem", "server.key"):
        shutil.copy(authority.file(name), data)
        if postgres.user is not None:
            os.chown(data / name, postgres.user, -1)
    role = f"{CLIENT}_{secrets.token_hex(4)}"
    url = postgres.fresh_database()
    database = url.rpartition("/")[2]
    rules = data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(
        f"hostssl {database} {role} all cert map={role}\nhost {database} all all reject\n{before}"
    )
    users = data / "pg_ident.conf"
    none = users.read_text()
    users.write_text(f"{role} {CLIENT} {role}\n")
    connection = await asyncpg.connect(postgres.url)
    await connection.execute(f"CREATE ROLE {role} LOGIN")
    await connection.execute(f"ALTER DATABASE {database} OWNER TO {role}")
    for name, value in SETTINGS.items():
        await connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    await connection.execute("SELECT pg_reload_conf()")
    yield f"postgresql://{role}@127.0.0.1:{postgres.port}/{database}"
    rules.write_text(before)
    users.write_text(none)
    for name in SETTINGS:
        await connection.execute(f"ALTER SYSTEM RESET {name}")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()


def with_options(url: str, trusted: Authority, own: Authority | None) -> str:
    options: dict[str, object] = {"sslmode": "verify-full", "sslrootcert": trusted.file("ca.pem")}
    if own:
        options |= {"sslcert": own.file(f"{CLIENT}.pem"), "sslkey": own.file(f"{CLIENT}.key")}
    return f"{url}?{urlencode(options)}"


async def opens(url: str) -> bool:
    database = PostgresDatabase(url, "portico_live")
    try:
        await database.open()
        await database.prepare()
        spoken = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        return await database.one(spoken) == (True,)
    except Unavailable:
        return False
    finally:
        await database.close()


async def test_postgresql_is_spoken_to_by_whom_both_trust_and_by_nobody_else(
    secured: str, authority: Authority, other: Authority, tmp_path: Path
) -> None:
    good = with_options(secured, authority, authority)
    assert await opens(good)
    assert await opens(good.replace("@", "@127.0.0.1:1,")), "beside one that is away"
    assert not await opens(with_options(secured, authority, None)), "without a certificate"
    assert not await opens(with_options(secured, authority, other)), "by another's certificate"
    assert not await opens(with_options(secured, other, authority)), "of another authority"
    nameless = good.replace("127.0.0.1", "localhost")
    assert not await opens(nameless), "at another name"
    assert not await opens(f"{secured}?sslmode=disable")
    dump(good, ["portico_live"], tmp_path / "dump")
    assert (tmp_path / "dump").stat().st_size


def to_valkey(port: int, trusted: Authority, own: Authority | None) -> str:
    options = {"ssl_ca_certs": trusted.file("ca.pem")}
    if own:
        options["ssl_certfile"] = own.file(f"{CLIENT}.pem")
        options["ssl_keyfile"] = own.file(f"{CLIENT}.key")
    return f"valkeys://127.0.0.1:{port}/0?{urlencode(options)}"


async def counts(url: str) -> bool:
    limiter = ValkeyLimiter(url, "live")
    try:
        return (await limiter.take((ACCOUNT, 1), Plan("any", 10, 10), MIDNIGHT)).admitted
    except Unavailable:
        return False
    finally:
        await limiter.close()


async def test_valkey_likewise(authority: Authority, other: Authority) -> None:
    port = free_port()
    files = {"cert": "server.pem", "key": "server.key", "ca-cert": "ca.pem"}
    words = ["--tls-port", str(port), "--tls-auth-clients", "yes"]
    for kind, name in files.items():
        words += [f"--tls-{kind}-file", str(authority.file(name))]
    with redis_servers(words):
        good = to_valkey(port, authority, authority)
        assert await counts(good)
        assert not await counts(to_valkey(port, authority, None)), "without a certificate"
        assert not await counts(to_valkey(port, authority, other)), "by another's certificate"
        assert not await counts(to_valkey(port, other, authority)), "of another authority"
        assert not await counts(good.replace("127.0.0.1", "localhost")), "at another name"
        assert not await counts(f"valkey://127.0.0.1:{port}/0")
