"""Rows that take long and much room: 10 million products, audit entries and kept answers."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

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
"""A product each time, with an `Idempotency-Key` of its own."""

REQUESTS = {
    "GET": Request(portico.PRODUCT, high=SMALL),
    "POST": POST,
}

# All are of today, so that nothing is old enough to be removed.
_ENTRIES = """
INSERT INTO audit (at, action, user_id, email, credential, credential_id, address, target,
    target_id, details, request_id)
SELECT {now} - n % {day}, 'product.updated', n % 1000, 'somebody@example.com', 'api_key', n % 1000,
    '192.0.2.1', 'product', CAST(n % 100000 AS TEXT), '{{}}', 'one-that-somebody-made'
FROM {numbers};
INSERT INTO idempotency_keys (user_id, route, key_hash, body_hash, status, headers, body,
    created_at)
SELECT 1, 'POST /v1/products', {random}, {random}, 201, '[]', CAST({body} AS {bytes}),
    {now} - n % {day}
FROM {numbers};"""
_DAY = 80_000_000
_SQLITE = {
    "random": "randomblob(32)",
    "bytes": "BLOB",
    "numbers": "(WITH RECURSIVE numbers (n) AS"
    " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT {count}) SELECT n FROM numbers)",
}
_POSTGRES = {
    "random": "sha256(CAST(CAST(random() AS TEXT) || n AS BYTEA))",
    "bytes": "BYTEA",
    "numbers": "generate_series(1, {count}) AS numbers (n)",
}


def products(shop: Workshop) -> None:
    """GET, list and the search of a rare word at 10 million products against a million."""
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
    """Reads and writes after 10 million audit entries and kept answers, against ten thousand."""
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
    shop.say(f"growth: {count:,} entries, SQLite")
    with closing(sqlite3.connect(data.directory / "live.db")) as connection, connection:
        connection.executescript(_filling(_SQLITE, count))
    with portico.serving(data, shop.log) as server:
        yield server


@contextmanager
def _on_postgres(shop: Workshop, count: int) -> Iterator[Running]:
    with postgres.cluster(shop.directory.parent) as url:
        data = portico.prepare(shop.fresh("portico-grown"), shop.catalogue(SMALL), SMALL, url)
        shop.say(f"growth: {count:,} entries, PostgreSQL")
        asyncio.run(_fill(url, count))
        postgres.settle(url)
        with portico.serving(data, shop.log) as server:
            yield server


async def _fill(url: str, count: int) -> None:
    connection = await asyncpg.connect(url, server_settings={"search_path": "portico_live"})
    await connection.execute(_filling(_POSTGRES, count))
    await connection.close()


def _filling(words: dict[str, str], count: int) -> str:
    now = time.time_ns() // 1_000_000
    numbers = words["numbers"].format(count=count)
    usual = {"now": now, "day": _DAY, "body": f"'{'x' * 400}'"}
    return _ENTRIES.format(**{**words, **usual, "numbers": numbers})
