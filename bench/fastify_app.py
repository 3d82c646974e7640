"""The Fastify application beside this file: its database from the catalogue, and its start."""

import hashlib
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench import catalog
from bench.servers import Address, Running, free_port, running

HERE = Path(__file__).parent / "fastify"
PER_MINUTE, PER_DAY = 1_000_000_000, 1_000_000_000
SCOPES = "read:users write:users read:products write:products admin"

_INSERT_PRODUCT = """
INSERT INTO products (name, description, category, price, currency, stock_quantity, status, images,
    metadata, created_at, updated_at)
VALUES (:name, :description, :category, :units, :currency, :stock_quantity, :status, '[]', '{}',
    :now, :now)
"""


def prepare(database: Path, count: int) -> str:
    """Fills a new database file with the catalogue of `count`; the API key that opens it."""
    key = secrets.token_urlsafe(40)
    now = time.time_ns() // 1_000_000
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript((HERE / "schema.sql").read_text())
        connection.executemany(
            _INSERT_PRODUCT,
            (
                {**product, "units": round(product["price"] * 10_000), "now": now}
                for product in catalog.products(count)
            ),
        )
        connection.execute(
            "INSERT INTO api_keys VALUES (?, 1, ?, ?, ?, NULL)",
            (hashlib.sha256(key.encode()).digest(), SCOPES, PER_MINUTE, PER_DAY),
        )
    return key


@contextmanager
def serving(
    database: Path, key: str, log: Path, certificate: tuple[Path, Path] | None
) -> Iterator[Running]:
    """The application on `database`, over TLS where there is a certificate (and its key)."""
    address = Address(free_port(), certificate is not None, {"Authorization": f"Bearer {key}"})
    argv = ["node", str(HERE / "server.js"), str(database), str(address.port)]
    argv += [str(path) for path in certificate or ()]
    name = f"Fastify {'TLS' if certificate else 'plain'}"
    environment = {"NODE_ENV": "production"}
    with running(name, argv, address, probe="/v1/products/1", log=log, env=environment) as server:
        yield server
