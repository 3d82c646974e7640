"""Rows about the process itself: memory, idle connections, start."""

import statistics

from bench import portico
from bench.client import idle_connections
from bench.load import Request, wrk
from bench.servers import BenchError
from bench.throughput import GET
from bench.workshop import MIDDLE, Workshop

MEMORY_REQUESTS = 1_000_000
LIST_SHARE = 0.1
PAGES = Request("/v1/products?page={N}&limit=25", high=MIDDLE // 25)
"""More pages than the cache has room for."""
IDLE_CONNECTIONS = 2_000


def memory(shop: Workshop) -> None:
    """Resident memory after a million requests, a tenth of them for pages, with full caches."""
    with shop.portico(MIDDLE, tls_on=True) as server:
        shop.note("memory", "at start", server.memory_kib() / 1024, "MiB")
        sent = seed = 0
        while sent < MEMORY_REQUESTS:
            request = PAGES if sent < LIST_SHARE * MEMORY_REQUESTS else GET
            sample = wrk(server.address, request, 1, seed=seed)
            if sample.void:
                raise BenchError(f"{sample.refused} requests refused, {sample.broken} broken")
            sent, seed = sent + sample.requests, seed + 1
            shop.say(f"memory: {sent:,} requests")
        kib = server.memory_kib()
    shop.at_most("memory", f"after {MEMORY_REQUESTS:,} requests", kib / 1024, "MiB", 160)


def idle(shop: Workshop) -> None:
    """The memory of an idle TLS connection, with 2,000 of them on a warm server."""
    with shop.portico(MIDDLE, tls_on=True) as server:
        wrk(server.address, GET, shop.report.seconds, seed=1)
        before = server.memory_kib()
        shop.say(f"idle: opening {IDLE_CONNECTIONS:,} connections")
        with idle_connections(server.address, IDLE_CONNECTIONS, "/v1/products/1"):
            each = (server.memory_kib() - before) / IDLE_CONNECTIONS
    shop.at_most("idle", f"each of {IDLE_CONNECTIONS:,} idle TLS connections", each, "KiB", 60)


def start(shop: Workshop) -> None:
    """The time from the command to the first response over TLS, with and without prepared data."""
    data = shop.portico_data(MIDDLE).copied(shop.fresh("portico-start"))
    prepared, first = [], []
    for round_ in range(shop.report.rounds):
        shop.say(f"start: round {round_ + 1}/{shop.report.rounds}")
        with portico.serving(data, shop.log) as server:
            prepared.append(server.start_seconds)
        first.append(portico.first_start_seconds(shop.fresh("portico-first"), shop.log))
    shop.at_most("start", "prepared data, median", statistics.median(prepared), "s", 1.5)
    shop.note("start", "no data yet, init included, median", statistics.median(first), "s")
