"""The row of what people wait for: the first view of a page in a browser."""

import base64
import json
import os
import sqlite3
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

from bench import portico
from bench.portico import Prepared
from bench.report import Finding
from bench.servers import BOTH_CPUS, BenchError, Running
from bench.visitor import Visitor
from bench.workshop import SMALL, Workshop
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = Path("/usr/bin/chromium-headless-shell")
EMPTY = "/healthz"
"""A page of one line: what the browser, the connection and the server need for any page. Those of
the dashboard need a new process of the browser besides, for their opener policy."""

PAGES = (
    "/dashboard",
    "/dashboard/products",
    "/dashboard/products/1",
    "/dashboard/requests",
    "/dashboard/events",
    "/dashboard/users",
    "/dashboard/audit",
    "/v1/docs",
    "/v1/docs/list_products",
    "/v1/docs/create_product",
)
BOUND_MS = 100.0
CHANGES = 60
"""So many products are changed that the pages that tell of it are full."""

_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
"""Milliseconds from the address to the end of the event `load` (Navigation Timing)."""


def view(shop: Workshop) -> None:
    """From asking for a page to its load event: by Chromium that has shown a page before, with
    nothing of this server kept, over a connection of its own, on both cores."""
    data = shop.portico_data(SMALL).copied(shop.fresh("portico-copy"))
    _add_requests(data)
    with portico.serving(data, shop.log, cpus=BOTH_CPUS) as server:
        _change_products(server)
        cookie = Visitor(server, data).cookie
        with _chromium(data) as browser:
            _measure(shop, browser, server.address.origin, cookie)


def _measure(shop: Workshop, browser: Browser, origin: str, cookie: str) -> None:
    waits: dict[str, list[float]] = {path: [] for path in (EMPTY, *PAGES)}
    times = 2 * shop.report.rounds + 1
    for turn in range(times + 1):
        shop.say(f"view: round {turn}/{times}" if turn else "view: warming up")
        for path in waits:
            waited = _first_view(browser, origin, path, cookie)
            if turn:
                waits[path].append(waited)
    empty = statistics.median(waits.pop(EMPTY))
    shop.note("view", f"{EMPTY}, to its load event, median", empty, "ms")
    for path, found in waits.items():
        middle = statistics.median(found)
        note = f"(lowest {min(found):.0f} ms; {middle / empty:.1f} x {EMPTY})"
        what = f"{path}, to its load event, median"
        shop.report.findings.append(
            Finding("view", what, middle, "ms", at_most=BOUND_MS, note=note)
        )


def _first_view(browser: Browser, origin: str, path: str, cookie: str) -> float:
    name, _, value = cookie.partition("=")
    with browser.new_context() as context:  # with a cache and connections of its own
        context.add_cookies([{"name": name, "value": value, "url": origin, "secure": True}])
        page = context.new_page()
        answer = page.goto(f"{origin}{path}")
        if answer is None or answer.status != 200:
            raise BenchError(f"{path} answered {answer and answer.status} in the browser")
        return float(page.evaluate(_LOADED))


def _add_requests(data: Prepared) -> None:
    """The first admin has asked something at every hour and on every day that pages show, which no
    command can do."""
    with closing(sqlite3.connect(data.directory / "live.db")) as database, database:
        for name, seconds, units in (("hour", 3600, 48), ("day", 86_400, 90)):
            last = int(time.time()) // seconds
            database.executemany(
                f"INSERT INTO request_{name}s VALUES (1, ?, '/v1/products', ?, 1, ?)",  # noqa: S608
                [
                    (last - unit, status, 9 + unit % 7)
                    for unit in range(units)
                    for status in (200, 404, 429)
                ],
            )


def _change_products(server: Running) -> None:
    connection = server.address.connect()
    headers = {**server.address.headers, "Content-Type": "application/json"}
    for number in range(1, CHANGES + 1):
        body = json.dumps({"stock_quantity": number})
        connection.request("PATCH", f"/v1/products/{number}", body, headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise BenchError(f"a product was not changed: {answer.status}")
    connection.close()


@contextmanager
def _chromium(data: Prepared) -> Iterator[Browser]:
    """A browser on both cores that trusts the server by its key: to one that overlooks a
    certificate that it does not trust, each connection would be made twice."""
    if not CHROMIUM.exists():
        package = "apt-get install chromium-headless-shell"
        raise BenchError(f"{CHROMIUM} is missing; on Debian and Ubuntu: {package}")
    certificate = x509.load_pem_x509_certificate((data.directory / "tls/server.pem").read_bytes())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    trusted = base64.b64encode(sha256(key).digest()).decode()
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(cpu) for cpu in BOTH_CPUS.split(",")})
    try:
        with sync_playwright() as playwright:
            flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
            flags.append(f"--ignore-certificate-errors-spki-list={trusted}")
            yield playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
    finally:
        os.sched_setaffinity(0, own)
