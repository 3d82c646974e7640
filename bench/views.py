"""The row of page loads: the first view of a page in a browser."""

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
from typing import NamedTuple

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
"""A page of one line, for the time that browser, connection and server need for any page."""

DASHBOARD = (
    "/dashboard",
    "/dashboard/products",
    "/dashboard/products/1",
    "/dashboard/requests",
    "/dashboard/events",
    "/dashboard/users",
    "/dashboard/audit",
)
REFERENCE = ("/v1/docs", "/v1/docs/list_products", "/v1/docs/create_product")
SIGN_IN = "/sign-in"
"""The page before the first page after signing in."""

BOUND_MS = 100.0
CHANGES = 60
"""How many products are changed, so that pages about changes are full."""

_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
"""Milliseconds from the start of the navigation to the end of the event `load` (Navigation Timing).
"""
_PAINTED = """new Promise(told => new PerformanceObserver(list => {
    for (const { name, startTime } of list.getEntries())
        if (name === "first-contentful-paint") told(startTime);
}).observe({ type: "paint", buffered: true }))"""
"""Milliseconds from the start of the navigation to the first paint of the page (Paint Timing)."""


class Waited(NamedTuple):
    """How long a page took, in milliseconds."""

    loaded: float
    painted: float


def view(shop: Workshop) -> None:
    """The time from the navigation to the load event, in Chromium with an empty cache, on both
    cores. The dashboard is opened in the tab in which the user signed in, the reference in a new
    one.

    The dashboard in a new tab is measured too: there Chromium starts a process because of the
    opener policy. So is the first paint, which may come before or after the load event.
    """
    data = shop.portico_data(SMALL).copied(shop.fresh("portico-copy"))
    _add_requests(data)
    with portico.serving(data, shop.log, cpus=BOTH_CPUS) as server:
        _change_products(server)
        cookie = Visitor(server, data).cookie
        with _chromium(data) as browser:
            _measure(shop, browser, server.address.origin, cookie)


def _measure(shop: Workshop, browser: Browser, origin: str, cookie: str) -> None:
    in_tabs = {f"{path}, in a new tab": (path, None) for path in (EMPTY, *REFERENCE, *DASHBOARD)}
    views = in_tabs | {f"{path}, once signed in": (path, SIGN_IN) for path in DASHBOARD}
    waits: dict[str, list[Waited]] = {name: [] for name in views}
    times = 2 * shop.report.rounds + 1
    for turn in range(times + 1):
        shop.say(f"view: round {turn}/{times}" if turn else "view: warming up")
        for name, (path, before) in views.items():
            waited = _first_view(browser, origin, path, before, cookie)
            if turn:
                waits[name].append(waited)
    empty = statistics.median(one.loaded for one in waits[f"{EMPTY}, in a new tab"])
    for name, (path, before) in views.items():
        found = [one.loaded for one in waits[name]]
        middle = statistics.median(found)
        painted = statistics.median(one.painted for one in waits[name])
        bound = BOUND_MS if before or path in REFERENCE else None
        beside = f"{middle / empty:.1f} x {EMPTY}"
        note = f"(lowest {min(found):.0f} ms; {beside}; painted {painted:.0f} ms)"
        what = f"{name}, to its load event, median"
        shop.report.findings.append(Finding("view", what, middle, "ms", at_most=bound, note=note))


def _first_view(
    browser: Browser, origin: str, path: str, before: str | None, cookie: str
) -> Waited:
    """How long `path` takes in a tab that has shown `before`, if that is given."""
    name, _, value = cookie.partition("=")
    with browser.new_context() as context:  # with its own cache and connections
        page = context.new_page()
        if before is not None:
            page.goto(f"{origin}{before}")
            context.new_cdp_session(page).send("Network.clearBrowserCache")
        context.add_cookies([{"name": name, "value": value, "url": origin, "secure": True}])
        answer = page.goto(f"{origin}{path}")
        if answer is None or answer.status != 200:
            raise BenchError(f"{path} answered {answer and answer.status} in the browser")
        return Waited(float(page.evaluate(_LOADED)), float(page.evaluate(_PAINTED)))


def _add_requests(data: Prepared) -> None:
    """Inserts requests of the first admin for every hour and day that pages show, which no command
    can do."""
    with closing(sqlite3.connect(data.directory / "live.db")) as database, database:
        for name, seconds, units in (("hour", 3600, 48), ("day", 86_400, 90)):
            last = int(time.time()) // seconds
            database.executemany(
                f"INSERT INTO request_{name}s VALUES (1, ?, '/v1/products', ?, 1, ?)",  # noqa: S608 - constants
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
    """A browser on both cores that trusts the server's key. If it merely ignored certificate
    errors, it would make each connection twice."""
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
