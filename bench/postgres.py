"""A PostgreSQL server for the benchmark, with default settings, on the server's core."""

import asyncio
import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
from bench.servers import SERVER_CPU, START_SECONDS, BenchError, free_port, on_server_cpu, stop

_MISSING = "PostgreSQL's server programs are not here: apt-get install postgresql"


def _programs() -> Path:
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not candidates:
        raise BenchError(_MISSING)
    return candidates[-1].parent


def _as_server_user() -> list[str]:
    """A prefix that runs a command as Debian's PostgreSQL user if we are root, since PostgreSQL
    refuses to run as root."""
    if os.getuid() != 0:
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]


async def _reachable(url: str) -> None:
    await (await asyncpg.connect(url, timeout=5)).close()


def _wait_until_reachable(url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            asyncio.run(_reachable(url))
            return
        time.sleep(0.1)
    raise BenchError("PostgreSQL did not start")


async def _settle(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("VACUUM (ANALYZE)")
    await connection.execute("CHECKPOINT")
    await connection.close()


def settle(url: str) -> None:
    """Does the maintenance that the server would do in the minutes after an import."""
    asyncio.run(_settle(url))


@contextlib.contextmanager
def cluster(parent: Path, cpu: str = SERVER_CPU) -> Iterator[str]:
    """Runs a new, empty server on that core, yields the address of its database, and removes it."""
    programs = _programs()
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as directory:
        password = secrets.token_urlsafe(24)
        secret = Path(directory) / "password"
        secret.touch(mode=0o600)
        secret.write_text(password)
        if os.getuid() == 0:
            account = pwd.getpwnam("postgres")
            for path in (Path(directory), secret):
                os.chown(path, account.pw_uid, account.pw_gid)
        data = Path(directory) / "data"
        initdb = [str(programs / "initdb"), "--pgdata", str(data), "--username=postgres"]
        initdb += ["--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8"]
        initdb += ["--locale=C.UTF-8"]
        made = subprocess.run(
            [*_as_server_user(), *initdb], capture_output=True, text=True, cwd="/", check=False
        )
        if made.returncode != 0:
            raise BenchError(f"initdb failed: {made.stderr.strip()[-500:]}")
        port = free_port()
        argv = [str(programs / "postgres"), "-D", str(data), "-p", str(port)]
        argv += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        process = subprocess.Popen(
            on_server_cpu([*_as_server_user(), *argv], cpu),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        try:
            url = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
            _wait_until_reachable(url)
            yield url
        finally:
            stop(process)
