"""Rows that time single requests: deep pages, search, and a GET beside heavy work."""

import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bench import catalog, portico
from bench.client import Hashing, after_changes, paced, percentile
from bench.load import Request, Series, wrk
from bench.servers import BenchError, Running, on_server_cpu, stop
from bench.throughput import GET
from bench.workshop import LARGE, MIDDLE, Workshop, check_answer

DEEP = Request("/v1/products?page=40000&limit=25")
HALFWAY = Request("/v1/products?page=20000&limit=25")
RARE = Request(f"/v1/products?search={catalog.RARE_WORD}")
COMMON = Request(f"/v1/products?search={catalog.COMMON_WORD}")
PAGE_BOUNDS_MS = {"SQLite": (10.0, 8.0), "PostgreSQL": (50.0, 15.0)}
SEARCH_BOUNDS_MS = {"SQLite": (3.0, 60.0), "PostgreSQL": (5.0, 120.0)}

BESIDE_PER_SECOND = 100
HASHES_PER_SECOND = 20
PAUSE_MS = 4
"""With this pause, 32 connections send about 7,000 GETs per second."""
CHANGES = 10
"""How many searches of a round each follow a change."""
IMPORT_HEAD_START_SECONDS = 1.0
SLICE_MS = 2.0
"""The time slice of another thread on the one core, whichever waits for the other."""


def one_at_a_time(shop: Workshop, row: str, name: str, server: Running, what: Request) -> Series:
    """Repeats a request over one connection, each time after the response to the one before."""
    series = Series(name)
    shop.say(f"{row}: {name}")
    what = replace(what, connections=1)
    wrk(server.address, what, 1, seed=0)
    for round_ in range(shop.report.rounds):
        sample = wrk(server.address, what, shop.report.seconds, seed=round_ + 1)
        series.samples.append(sample)
    shop.report.series.append((row, series))
    return series


def pages(shop: Workshop) -> None:
    """Page 40,000 of a million products, and how long a GET waits for it."""
    shop.on_each_engine("pages", _pages)


def _pages(shop: Workshop, engine: str, server: Running) -> None:
    check_answer(server, DEEP.path, b'"total_items":%d' % LARGE)
    deep = one_at_a_time(shop, "pages", f"page 40,000, {engine}", server, DEEP)
    half = one_at_a_time(shop, "pages", f"page 20,000, {engine}", server, HALFWAY)
    named = (("page 40,000", deep), ("page 20,000", half))
    for (page, one), bound in zip(named, PAGE_BOUNDS_MS[engine], strict=True):
        what = f"{page}, {engine}, median"
        shop.at_most("pages", what, one.p50_ms, "ms", bound, void=one.void)
    slower = (DEEP, deep.p50_ms) if deep.p50_ms > half.p50_ms else (HALFWAY, half.p50_ms)
    _beside_deep_pages(shop, engine, server, *slower)


def _beside_deep_pages(
    shop: Workshop, engine: str, server: Running, page: Request, page_ms: float
) -> None:
    """GETs at fixed times while one client requests a deep page without a pause.

    If a GET had to wait for the page under way, its median would be longer by half of the page's
    time, and its 90th percentile by nine tenths.
    """
    shop.say(f"pages: GET beside deep pages, {engine}")
    seconds = shop.report.rounds * shop.report.seconds
    path = "/v1/products/5000"
    quiet = paced(server.address, path, BESIDE_PER_SECOND, seconds)
    pages_ = threading.Thread(
        target=wrk,
        args=(server.address, replace(page, connections=1), seconds + 1),
        kwargs={"seed": 1},
    )
    pages_.start()
    beside = paced(server.address, path, BESIDE_PER_SECOND, seconds)
    pages_.join()
    quiet_ms, beside_ms = (percentile(waits, 90) * 1000 for waits in (quiet, beside))
    what = f"what deep pages add to a GET, {engine}, p90"
    shop.at_most("pages", what, beside_ms - quiet_ms, "ms", max(page_ms / 2, SLICE_MS))
    shop.note("pages", f"GET without them, {engine}, p90", quiet_ms, "ms")


def search(shop: Workshop) -> None:
    """A rare and a common word among a million products."""
    shop.on_each_engine("search", _search)


def _search(shop: Workshop, engine: str, server: Running) -> None:
    words = (
        ("a word in 20 products", RARE, catalog.RARE_COUNT),
        ("a word in 200,000 products", COMMON, LARGE // catalog.COMMON_SHARE),
    )
    for (what, request, count), bound in zip(words, SEARCH_BOUNDS_MS[engine], strict=True):
        check_answer(server, request.path, b'"total_items":%d,' % count)
        name = f"{what}, {engine}"
        series = one_at_a_time(shop, "search", name, server, request)
        void = series.void
        shop.at_most("search", f"{name}, median", series.p50_ms, "ms", bound, void=void)
        times = CHANGES * shop.report.rounds
        fresh = statistics.median(after_changes(server.address, request.path, times)) * 1000
        shop.at_most("search", f"{name}, after a change, median", fresh, "ms", bound)


@contextmanager
def _importing(shop: Workshop, data: portico.Prepared) -> Iterator[None]:
    """Runs `portico products import` of a million rows beside the server, on the server's core."""
    argv = portico.command(data, "products", "import", str(shop.catalogue(LARGE)))
    with shop.log.open("ab") as output:
        process = subprocess.Popen(
            on_server_cpu(argv),
            env=portico.environment(data),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        time.sleep(IMPORT_HEAD_START_SECONDS)
        yield
        if process.poll() is not None:
            raise BenchError(
                f"the import ended (exit code {process.returncode}) before the load beside it did"
            )
    finally:
        stop(process)


def busy(shop: Workshop) -> None:
    """GET on an idle server, then beside 20 password hashes per second, then beside an import.

    Under full load, everything competes for the one core. At a third of the load there is room, so
    there the hashes must also be done at the rate at which they are requested.
    """
    shop.catalogue(LARGE)
    data = shop.portico_data(MIDDLE).copied(shop.fresh("portico-busy"))
    with portico.serving(data, shop.log) as server:
        for load, request in (("full load", GET), ("a third", replace(GET, pause_ms=PAUSE_MS))):
            _busy(shop, data, server, load, request)


def _busy(
    shop: Workshop, data: portico.Prepared, server: Running, load: str, request: Request
) -> None:
    quiet, hashing, importing = series = [
        Series(f"GET at {load}{what}") for what in ("", ", 20 hashes/s", ", import")
    ]
    hashes = []
    wrk(server.address, request, 1, seed=0)
    for round_ in range(shop.report.rounds):
        shop.say(f"busy: round {round_ + 1}/{shop.report.rounds} at {load}")
        seed, seconds = round_ + 1, shop.report.seconds
        quiet.samples.append(wrk(server.address, request, seconds, seed=seed))
        users = Hashing(server.address, HASHES_PER_SECOND)
        with users.under_way():
            hashing.samples.append(wrk(server.address, request, seconds, seed=seed))
        hashes.append(users.done_per_second)
        with _importing(shop, data):
            importing.samples.append(wrk(server.address, request, seconds, seed=seed))
    shop.report.series += [("busy", one) for one in series]
    done = statistics.median(hashes)
    shop.note("busy", f"hashes done of {HASHES_PER_SECOND}/s, GET at {load}", done, "/s")
    starved = request.pause_ms > 0 and done < 0.9 * HASHES_PER_SECOND
    for one, bound in ((hashing, 3), (importing, 2.5 if request.pause_ms else 3)):
        ratio = one.p99_ms / quiet.p99_ms
        void = quiet.void or one.void or (one is hashing and starved)
        shop.at_most("busy", f"{one.name}: p99 ÷ quiet p99", ratio, "x", bound, void=void)
