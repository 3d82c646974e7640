"""Portico through its public command line: prepared data directories, and servers on them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.servers import SERVER_CPU, Address, BenchError, Running, free_port, running

PRODUCT = "/v1/products/{N}"
PRODUCTS = "/v1/products"
FIRST_PAGE = "/v1/products?page=1&limit=25"

_COMMAND = str(Path(sys.executable).with_name("portico"))
LIMITS = "".join(
    f"[plans.{plan}]\nper_minute = 1000000000\nper_day = 1000000000\n"
    for plan in ("free", "enterprise")
)
ADMIN = "admin@example.com"
_BEHIND_PROXY = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}


@dataclass(frozen=True)
class Prepared:
    """A data directory with a catalogue, and the first admin's key and password."""

    directory: Path
    key: str
    password: str
    environment: Mapping[str, str]
    count: int

    def copied(self, directory: Path) -> "Prepared":
        """A copy of the data in `directory`, for a server that changes it (SQLite)."""
        shutil.copytree(self.directory, directory)
        return replace(self, directory=directory)


def command(prepared: Prepared, *words: str) -> list[str]:
    """`portico WORDS… --data DIR`."""
    return [_COMMAND, *words, "--data", str(prepared.directory)]


def environment(prepared: Prepared) -> dict[str, str]:
    """The environment of a command on the prepared data."""
    return {**os.environ, **prepared.environment}


def _run(prepared: Prepared, *words: str) -> str:
    argv = command(prepared, *words)
    done = subprocess.run(
        argv, env=environment(prepared), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise BenchError(f"portico {' '.join(words)} failed: {said[-1]}")
    return done.stdout


def told(prepared: Prepared, *words: str) -> Any:
    """The output of `portico WORDS… --json`."""
    return json.loads(_run(prepared, *words, "--json"))


def import_records(prepared: Prepared, many: str, file: Path) -> None:
    """`portico records MANY import FILE`, once the kind is in the database."""
    _run(prepared, "migrate")
    _run(prepared, "records", many, "import", str(file))


def prepare(
    directory: Path, products: Path, count: int, database_url: str | None = None
) -> Prepared:
    """Runs `portico init`, and imports `count` products from the NDJSON file `products`.

    The limits of the first admin's plan and of unauthenticated clients are too high to be reached.
    """
    config = directory.with_suffix(".toml")
    config.write_text(LIMITS)
    variables = {"PORTICO_CONFIG": str(config)}
    if database_url is not None:
        variables["PORTICO_DATABASE_URL"] = database_url
    empty = Prepared(directory, "", "", variables, count)
    made = json.loads(_run(empty, "init", "--json", "--admin-email", ADMIN))
    _run(empty, "products", "import", str(products))
    return replace(empty, key=made["keys"]["live"], password=made["admin"]["password"])


@contextmanager
def serving(
    prepared: Prepared,
    log: Path,
    *,
    tls_on: bool = True,
    request_log: bool = True,
    kept: bool = True,
    cpus: str = SERVER_CPU,
) -> Iterator[Running]:
    """Runs `portico serve`, with its own TLS or over plain HTTP as behind a trusted proxy.

    By default Portico logs each request and caches representations; `request_log=False` and
    `kept=False` turn that off.
    """
    headers = {"Authorization": f"Bearer {prepared.key}"}
    variables = {
        **prepared.environment,
        "PORTICO_LOG_REQUESTS": "on" if request_log else "off",
        "PORTICO_CONNECTIONS_PER_ADDRESS": "16384",  # all load comes from one address
        "PORTICO_DRAIN_SECONDS": "0",
    }
    if not kept:
        variables["PORTICO_KEPT_BYTES"] = "0"
    if not tls_on:
        headers |= _BEHIND_PROXY
        variables |= {"PORTICO_TLS": "off", "PORTICO_TRUSTED_PROXIES": "127.0.0.1"}
    address = Address(free_port(), tls_on, headers)
    argv = command(prepared, "serve", "--host", "127.0.0.1", "--port", str(address.port))
    name = f"Portico {'TLS' if tls_on else 'plain'}"
    with running(
        name, argv, address, probe="/v1/products/1", log=log, env=variables, cpus=cpus
    ) as server:
        yield server


def first_start_seconds(directory: Path, log: Path) -> float:
    """The time from `portico serve` on a new directory to its first response."""
    address = Address(free_port(), tls=True, headers={})
    argv = [_COMMAND, "serve", "--host", "127.0.0.1", "--port", str(address.port)]
    argv += ["--data", str(directory)]
    with running("Portico, first start", argv, address, probe="/healthz", log=log) as server:
        return server.start_seconds
