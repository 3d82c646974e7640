"""Prepares the databases of the Fastify applications in `fastify/`, and starts them."""

import hashlib
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import asyncpg
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

# The schema of `schema.sql`. A trigger keeps the totals.
_STORES_SCHEMA = """
CREATE TABLE products (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    category TEXT NOT NULL,
    price BIGINT NOT NULL,
    currency TEXT NOT NULL,
    stock_quantity BIGINT NOT NULL,
    status TEXT NOT NULL,
    images TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX products_by_status ON products (status, id);
CREATE TABLE totals (status TEXT PRIMARY KEY, total BIGINT NOT NULL);
CREATE FUNCTION product_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO totals AS t SELECT status, count(*) FROM added GROUP BY status
    ON CONFLICT (status) DO UPDATE SET total = t.total + excluded.total;
    RETURN NULL;
END $$;
CREATE TRIGGER product_added AFTER INSERT ON products REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION product_added();
CREATE TABLE api_keys (
    key_hash BYTEA PRIMARY KEY,
    account_id BIGINT NOT NULL,
    scopes TEXT NOT NULL,
    per_minute BIGINT NOT NULL,
    per_day BIGINT NOT NULL,
    expires_at BIGINT
);
"""
_COLUMNS = ("name", "description", "category", "price", "currency", "stock_quantity", "status")


def prepare(database: Path, count: int) -> str:
    """Fills a new database file with a catalogue of `count` products. Returns the API key."""
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
    """The application on `database`, over TLS if there is a certificate with its key."""
    address = Address(free_port(), certificate is not None, {"Authorization": f"Bearer {key}"})
    argv = ["node", str(HERE / "server.js"), str(database), str(address.port)]
    argv += [str(path) for path in certificate or ()]
    name = f"Fastify {'TLS' if certificate else 'plain'}"
    environment = {"NODE_ENV": "production"}
    with running(name, argv, address, probe="/v1/products/1", log=log, env=environment) as server:
        yield server


async def prepare_stores(url: str, count: int) -> str:
    """Fills an empty PostgreSQL database with a catalogue of `count`. Returns the API key."""
    key = secrets.token_urlsafe(40)
    now = time.time_ns() // 1_000_000
    connection = await asyncpg.connect(url)
    await connection.execute(_STORES_SCHEMA)
    rows = [
        [
            *map({**product, "price": round(product["price"] * 10_000)}.get, _COLUMNS),
            "[]",
            "{}",
            now,
            now,
        ]
        for product in catalog.products(count)
    ]
    columns = [*_COLUMNS, "images", "metadata", "created_at", "updated_at"]
    await connection.copy_records_to_table("products", records=rows, columns=columns)
    digest = hashlib.sha256(key.encode()).digest()
    values = (digest, 1, SCOPES, PER_MINUTE, PER_DAY, None)
    await connection.copy_records_to_table("api_keys", records=[values])
    await connection.execute("VACUUM ANALYZE")
    await connection.close()
    return key


@contextmanager
def serving_stores(url: str, redis_url: str, key: str, log: Path) -> Iterator[Running]:
    """The application on PostgreSQL and Redis, without TLS as behind a proxy."""
    address = Address(free_port(), tls=False, headers={"Authorization": f"Bearer {key}"})
    argv = ["node", str(HERE / "stores.js"), str(address.port)]
    stores = {"DATABASE_URL": url, "REDIS_URL": redis_url, "NODE_ENV": "production"}
    with running("Fastify", argv, address, probe="/v1/products/1", log=log, env=stores) as server:
        yield server
