"""Rows that need much time and space: 10 million products, audit entries and kept answers."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import apsw
import asyncpg
from bench import catalog, portico, postgres
from bench.latency import RARE
from bench.load import Request
from bench.servers import Running
from bench.throughput import GET, LIST
from bench.workshop import LARGE, SMALL, Job, Workshop, check_answer

HUGE = 10_000_000
FEW, MANY = 10_000, 10_000_000

_POST = """
wrk.headers["Content-Type"] = "application/json"
local number = os.time() * 1000000

function request()
  number = number + 1
  wrk.headers["Idempotency-Key"] = string.format("%.0f", number)
  return wrk.format("POST", "{path}", nil, [[{body}]])
end
"""
POST = Request(
    "",
    script=_POST.format(path=portico.PRODUCTS, body=catalog.new_product().replace("{N}", "1" * 9)),
)
"""Creates a product with a new `Idempotency-Key` each time."""

REQUESTS = {
    "GET": Request(portico.PRODUCT, high=SMALL),
    "POST": POST,
}

# The entries are from today, so that none is old enough to be removed, ordered by time, and about
# existing products. Keys are inserted in the order of their index; those of later requests fall
# anywhere between.
_ENTRIES = """
INSERT INTO audit (at, action, user_id, email, credential, credential_id, address, target,
    target_id, details, request_id)
SELECT {now} - {day} + n * {day} / {count}, 'product.updated', n % 1000, 'somebody@example.com',
    'api_key', n % 1000, '192.0.2.1', 'product', CAST(1 + n % {products} AS TEXT), '{{}}',
    'one-that-somebody-made'
FROM {numbers};
INSERT INTO idempotency_keys (user_id, route, key_hash, body_hash, status, headers, body,
    created_at)
SELECT 1, 'POST /v1/products', {key}, {key}, 201, '[]', CAST({body} AS {bytes}),
    {now} - {day} + n * {day} / {count}
FROM {numbers};"""
_DAY = 80_000_000
_PARTS = 10
_PLACE = "n * 4294967295 / {count}"
"""Spread evenly over 32 bits."""
_SQLITE = {
    "key": f"unhex(format('%08x%056x', {_PLACE}, n))",
    "bytes": "BLOB",
    "numbers": "(WITH RECURSIVE numbers (n) AS"
    " (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last}) SELECT n FROM numbers)",
}
_POSTGRES = {
    "key": f"decode(lpad(to_hex({_PLACE}), 8, '0') || lpad(to_hex(n), 56, '0'), 'hex')",
    "bytes": "BYTEA",
    "numbers": "generate_series(CAST({first} AS BIGINT), {last}) AS numbers (n)",
}
# Only for filling the database while no server runs. What is measured uses the usual settings.
_QUICKLY = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-4000000"


def products(shop: Workshop) -> None:
    """GET, list and the search of a rare word with 10 million products, compared with a million."""
    names = {"GET": GET, "list": LIST, "search of a rare word": RARE}
    with ExitStack() as stack:
        servers = [stack.enter_context(shop.portico(n, tls_on=True)) for n in (LARGE, HUGE)]
        check_answer(servers[1], LIST.path, b'"total_items":%d' % HUGE)
        jobs = [
            Job(f"{name} at {count:,}", server, request)
            for name, request in names.items()
            for count, server in zip((LARGE, HUGE), servers, strict=True)
        ]
        series = shop.interleave("huge", jobs)
    for name, large, huge in zip(names, series[::2], series[1::2], strict=True):
        shop.ratio("huge", f"{name} at {HUGE:,} ÷ at {LARGE:,}", huge, large, 0.8)


def entries(shop: Workshop) -> None:
    """Reads and writes after 10 million audit entries and kept answers, compared with 10,000."""
    for engine, served in (("SQLite", _on_sqlite), ("PostgreSQL", _on_postgres)):
        with ExitStack() as stack:
            servers = [stack.enter_context(served(shop, count)) for count in (FEW, MANY)]
            jobs = [
                Job(f"{name}, {count:,} entries, {engine}", server, request)
                for name, request in REQUESTS.items()
                for count, server in zip((FEW, MANY), servers, strict=True)
            ]
            series = shop.interleave("growth", jobs)
        for name, few, many in zip(REQUESTS, series[::2], series[1::2], strict=True):
            what = f"{name} after {MANY:,} entries ÷ after {FEW:,}, {engine}"
            shop.ratio("growth", what, many, few, 0.9)


@contextmanager
def _on_sqlite(shop: Workshop, count: int) -> Iterator[Running]:
    data = shop.portico_data(SMALL).copied(shop.fresh("portico-grown"))
    with closing(apsw.Connection(str(data.directory / "live.db"))) as connection:
        connection.execute(_QUICKLY).fetchall()
        for part in _filling(shop, "SQLite", _SQLITE, count):
            connection.execute(part).fetchall()
    # As if writes had filled it: on disk, and in memory as far as there is room.
    os.sync()
    with (data.directory / "live.db").open("rb") as file:
        while file.read(1 << 24):
            pass
    with portico.serving(data, shop.log) as server:
        yield server


@contextmanager
def _on_postgres(shop: Workshop, count: int) -> Iterator[Running]:
    with postgres.cluster(shop.directory.parent) as url:
        data = portico.prepare(shop.fresh("portico-grown"), shop.catalogue(SMALL), SMALL, url)
        asyncio.run(_fill(shop, url, count))
        postgres.settle(url)
        with portico.serving(data, shop.log) as server:
            yield server


async def _fill(shop: Workshop, url: str, count: int) -> None:
    connection = await asyncpg.connect(url, server_settings={"search_path": "portico_live"})
    for part in _filling(shop, "PostgreSQL", _POSTGRES, count):
        await connection.execute(part)
    await connection.close()


def _filling(shop: Workshop, engine: str, words: dict[str, str], count: int) -> Iterator[str]:
    """Statements that each insert a part of the entries."""
    usual = {
        "now": time.time_ns() // 1_000_000,
        "day": _DAY,
        "count": count,
        "products": SMALL,
        "body": f"'{'x' * 400}'",
    }
    for first in range(1, count, count // _PARTS):
        last = first + count // _PARTS - 1
        shop.say(f"growth: {last:,} of {count:,} entries, {engine}")
        numbers = words["numbers"].format(first=first, last=last)
        key = words["key"].format(count=count)
        yield _ENTRIES.format(**usual, bytes=words["bytes"], key=key, numbers=numbers)
