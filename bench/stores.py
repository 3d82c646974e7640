"""Portico on PostgreSQL and Redis, compared with Fastify on the same. Also the figures for capacity
planning: the cost of a request for each process, and the bytes of a row of each kind."""

import asyncio
import contextlib
import json
import secrets
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import asyncpg
from bench import catalog, fastify_app, portico, postgres
from bench.load import Request, Series, wrk
from bench.portico import Prepared
from bench.servers import (
    LOAD_CPU,
    BenchError,
    Running,
    cpu_seconds,
    free_port,
    on_server_cpu,
    stop,
)
from bench.workshop import Job, Workshop, check_answer
from valkey import Valkey
from valkey.exceptions import ValkeyError

PRODUCTS = 10_000
ACCOUNTS = 400
KEYS = 1_000
WRITES = 500
CALLERS = 5_000
START_TRIES = 500

TABLES = {
    "product": ("products", "product_words"),
    "account": ("users",),
    "key": ("api_keys",),
    "event": ("events",),
    "audit entry": ("audit",),
    "kept answer": ("idempotency_keys",),
}
"""The tables of a row of each kind. Its rows are counted in the first table."""
# A partitioned table itself is empty.
_SIZE = """
SELECT CAST(sum(pg_total_relation_size(part)) AS BIGINT) FROM (
    SELECT CAST($1::text AS regclass) AS part
    UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = CAST($1::text AS regclass)
) AS parts"""

REQUESTS = {
    "GET": Request(portico.PRODUCT, high=PRODUCTS),
    "list": Request(portico.FIRST_PAGE),
    "POST": Request(portico.PRODUCTS, "POST", catalog.new_product(), high=10**8, digits=9),
}

MANY = replace(REQUESTS["POST"], connections=64)


def stores(shop: Workshop) -> None:
    """One worker on one core, with PostgreSQL and Redis on the other, without TLS as behind a
    proxy."""
    with postgres.cluster(shop.directory.parent, LOAD_CPU) as url, _redis(shop) as counters:
        shop.say(f"portico products import, {PRODUCTS:,} products, PostgreSQL")
        data = portico.prepare(
            shop.fresh("portico-stores"), shop.catalogue(PRODUCTS), PRODUCTS, url
        )
        address = f"redis://127.0.0.1:{counters.get_connection_kwargs()['port']}/0"
        data = replace(data, environment={**data.environment, "PORTICO_VALKEY_URL": address})
        with portico.serving(data, shop.log, tls_on=False) as server:
            _beside_fastify(shop, server, url, address)
            shop.say("stores: accounts, keys, writes")
            _fill(server)
            _note_rows(shop, url)
            _note_requests(shop, server, url, counters, REQUESTS)
            _note_many(shop, server)
            _note_callers(shop, server, counters)
        with portico.serving(data, shop.log, tls_on=False, kept=False) as server:
            _note_requests(shop, server, url, counters, {"list made anew": REQUESTS["list"]})
        _beside_two_workers(shop, data, url, address)


def _beside_two_workers(shop: Workshop, data: Prepared, url: str, address: str) -> None:
    """The cost of a request with two workers, compared with two independent servers of one worker
    each: all on one core, with as many clients for each worker. The difference to one worker is the
    cost of sharing the core and its caches."""
    apart = []
    for number in (1, 2):
        theirs = asyncio.run(_another_database(url, f"apart_{number}"))
        one = portico.prepare(
            shop.fresh("portico-apart"), shop.catalogue(PRODUCTS), PRODUCTS, theirs
        )
        counted = {"PORTICO_VALKEY_URL": f"{address.removesuffix('/0')}/{number}"}
        apart.append(replace(one, environment={**one.environment, **counted}))
    together = replace(data, environment={**data.environment, "PORTICO_WORKERS": "2"})
    with ExitStack() as stack:
        first, second, both = (
            stack.enter_context(portico.serving(one, shop.log, tls_on=False))
            for one in (*apart, together)
        )
        for name, request in REQUESTS.items():
            twice = replace(request, connections=2 * request.connections)
            one_each = [(first, request), (second, request)]
            costs: dict[str, list[float]] = {"apart": [], "together": [], "one worker": []}
            for round_ in range(shop.report.rounds + 1):  # the first warms up
                shop.say(f"stores: round {round_}/{shop.report.rounds} {name}, two workers")
                for what, loads in (
                    ("apart", one_each),
                    ("together", [(both, twice)]),
                    ("one worker", one_each[:1]),
                ):
                    costs[what].append(_cost(loads, shop.report.seconds, round_))
            middle = {what: statistics.median(seen[1:]) for what, seen in costs.items()}
            shop.note("stores", f"{name}: one worker", middle["one worker"], "µs")
            shop.note("stores", f"{name}: two workers", middle["together"], "µs")
            what = f"{name}: two workers ÷ two servers of one, by processor time"
            shop.at_most("stores", what, middle["together"] / middle["apart"], "x", 1.05)


def _cost(loads: Sequence[tuple[Running, Request]], seconds: int, seed: int) -> float:
    """Processor time of the servers for each request in microseconds, with all loads at once."""
    used = -sum(server.cpu_seconds() for server, _ in loads)
    with ThreadPoolExecutor(len(loads)) as pool:
        samples = [
            *pool.map(lambda load: wrk(load[0].address, load[1], seconds, seed=seed + 1), loads)
        ]
    used += sum(server.cpu_seconds() for server, _ in loads)
    if any(sample.void for sample in samples):
        raise BenchError("requests were refused, or connections broke")
    return used * 1e6 / sum(sample.requests for sample in samples)


def _beside_fastify(shop: Workshop, server: Running, url: str, redis_url: str) -> None:
    """GET and list of the same catalogue, in another database of the same stores."""
    theirs = asyncio.run(_another_database(url, "fastify"))
    key = asyncio.run(fastify_app.prepare_stores(theirs, PRODUCTS))
    with fastify_app.serving_stores(theirs, redis_url, key, shop.fresh("fastify-log")) as fastify:
        jobs = []
        for name in ("GET", "list"):
            for one in (server, fastify):
                check_answer(one, portico.FIRST_PAGE, b'"total_items":%d' % PRODUCTS)
                jobs.append(Job(f"{name}: {one.name}, stores", one, REQUESTS[name]))
        get, get_theirs, list_, list_theirs = shop.interleave("stores", jobs)
    shop.ratio("stores", "GET: Portico ÷ Fastify, both on stores, plain", get, get_theirs, 1.1)
    shop.ratio("stores", "list: Portico ÷ Fastify, both on stores, plain", list_, list_theirs)


def _note_requests(
    shop: Workshop, server: Running, url: str, counters: Any, requests: Mapping[str, Request]
) -> None:
    postmaster, redis = asyncio.run(_postmaster(url)), int(counters.info("server")["process_id"])
    parties: dict[str, Callable[[], float]] = {
        "Portico": server.cpu_seconds,
        "PostgreSQL": partial(cpu_seconds, postmaster),
        "Redis": partial(cpu_seconds, redis),
    }
    for name, request in requests.items():
        wrk(server.address, request, 1, seed=0)
        log = asyncio.run(_written(url))
        used = {party: -told() for party, told in parties.items()}
        sample = wrk(server.address, request, shop.report.seconds, seed=1)
        if sample.void:
            raise BenchError(f"{name}: {sample.refused} refused, {sample.broken} broken")
        for party, told in parties.items():
            cost = (used[party] + told()) * 1e6 / sample.requests
            shop.note("stores", f"{name}: {party}", cost, "µs")
        if request.method == "POST":
            log = asyncio.run(_written(url)) - log
            shop.note("stores", f"{name}: write-ahead log", log / sample.requests, "B")
        else:
            sent = len(server.address.get(request.path.replace("{N}", "1"))[1])
            shop.note("stores", f"{name}: answer", sent, "B")


def _note_many(shop: Workshop, server: Running) -> None:
    """The cost of creating products concurrently."""
    series = Series("POST over 64 connections, stores")
    for round_ in range(shop.report.rounds):
        shop.say(f"stores: round {round_ + 1}/{shop.report.rounds} {series.name}")
        series.samples.append(wrk(server.address, MANY, shop.report.seconds, seed=round_ + 1))
    shop.report.series.append(("stores", series))
    shop.at_least("stores", series.name, series.per_second, "/s", 2500, void=series.void)


def _note_rows(shop: Workshop, url: str) -> None:
    for kind, size in asyncio.run(_bytes_a_row(url)).items():
        shop.note("stores", f"{kind}: row and indexes", size, "B")


def _note_callers(shop: Workshop, server: Running, counters: Any) -> None:
    """The Redis memory of a caller, who is counted by minute and by day. The address of an
    unauthenticated client is counted like an account."""
    before = counters.info("memory")["used_memory"]
    connection = server.address.connect()
    for number in range(CALLERS):
        address = f"198.{18 + number // 65_536}.{number // 256 % 256}.{number % 256}"
        sent = {"X-Forwarded-Proto": "https", "X-Forwarded-For": address}
        connection.request("GET", portico.FIRST_PAGE, headers=sent)
        connection.getresponse().read()
    connection.close()
    used = counters.info("memory")["used_memory"] - before
    shop.note("stores", "caller: Redis", used / CALLERS, "B")


def _fill(server: Running) -> None:
    """Creates accounts and keys, and writes with an `Idempotency-Key`."""
    connection = server.address.connect()

    def post(path: str, body: object, **headers: str) -> None:
        sent = {**server.address.headers, "Content-Type": "application/json", **headers}
        connection.request("POST", path, json.dumps(body), sent)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 201:
            raise BenchError(f"POST {path}: {answer.status} {said[:300]!r}")

    for number in range(ACCOUNTS):
        person = {"name": f"Person {number}", "email": f"person-{number}@example.com"}
        post("/v1/users", {**person, "password": secrets.token_urlsafe()})
    for number in range(KEYS):
        post("/v1/api-keys", {"name": f"Key {number}", "type": "live"})
    product = json.loads(catalog.new_product())
    for number in range(WRITES):
        key = {"Idempotency-Key": secrets.token_hex(16)}
        post(portico.PRODUCTS, {**product, "name": f"Kept {number}"}, **key)
    connection.close()


async def _bytes_a_row(url: str) -> dict[str, float]:
    connection = await asyncpg.connect(url)
    await connection.execute("SET search_path TO portico_live")
    found = {}
    for kind, tables in TABLES.items():
        sizes = [await connection.fetchval(_SIZE, table) for table in tables]
        rows = await connection.fetchval(f"SELECT count(*) FROM {tables[0]}")  # noqa: S608 - ours
        found[kind] = sum(sizes) / rows
    await connection.close()
    return found


async def _another_database(url: str, name: str) -> str:
    """The address of a new database of the same server."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return f"{url.removesuffix('/postgres')}/{name}"


async def _written(url: str) -> int:
    """How many bytes of write-ahead log have been written."""
    connection = await asyncpg.connect(url)
    told: int = await connection.fetchval(
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
    )
    await connection.close()
    return told


async def _postmaster(url: str) -> int:
    """The id of PostgreSQL's main process, the parent of all others."""
    connection = await asyncpg.connect(url)
    told: str = await connection.fetchval("SELECT pg_read_file('postmaster.pid')")
    await connection.close()
    return int(told.split()[0])


@contextlib.contextmanager
def _redis(shop: Workshop) -> Iterator[Any]:
    """Runs a Redis or Valkey server on PostgreSQL's core, and yields a client of it."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        raise BenchError("there is no redis-server here: apt-get install redis-server")
    port = free_port()
    argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir"]
    process = subprocess.Popen(
        on_server_cpu([*argv, str(shop.directory)], LOAD_CPU),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    client: Any = Valkey(port=port, decode_responses=True)
    try:
        for _ in range(START_TRIES):
            with contextlib.suppress(ValkeyError):
                client.ping()
                break
            time.sleep(0.01)
        yield client
    finally:
        client.close()
        stop(process)
