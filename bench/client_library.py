"""The row of the client library: its cost compared with plain httpx for the same requests."""

import gc
import json
import ssl
import statistics
import time
from collections.abc import Callable
from decimal import Decimal

import httpx
from bench.portico import FIRST_PAGE, PRODUCT
from bench.workshop import SMALL, Workshop

from portico_client import Client

CALLS = 200
"""Calls of one kind in a turn, which takes about a tenth of a second."""
TURNS = 5
"""Turns for each round and second of the options."""
MOST = 1.3

Call = Callable[[], object]


def library(shop: Workshop) -> None:
    """The processor time of a call: the library's ÷ that of httpx with the same connection, headers
    and body, which parses the same JSON."""
    data = shop.portico_data(SMALL)
    with shop.portico(SMALL, tls_on=True) as server:
        # The server runs on a copy of these data, with the same authority.
        context = ssl.create_default_context(cafile=data.directory / "tls" / "ca.pem")
        base = f"{server.address.origin}/v1"
        with (
            Client(data.key, base_url=base, ca=context) as client,
            httpx.Client(verify=context, headers=dict(server.address.headers)) as bare,
        ):
            one, page = PRODUCT.format(N=17), FIRST_PAGE
            listing = client.products.list(limit=25)
            pairs: list[tuple[str, Call, Call]] = [
                ("GET one", lambda: client.products.get(17), lambda: _read(bare, base, one)),
                ("GET 25", lambda: listing.page(1), lambda: _read(bare, base, page)),
            ]
            for name, ours, theirs in pairs:
                _compare(shop, name, ours, theirs)


def _read(bare: httpx.Client, base: str, path: str) -> object:
    answer = bare.get(base.removesuffix("/v1") + path)
    answer.raise_for_status()
    return json.loads(answer.content, parse_float=Decimal)


def _compare(shop: Workshop, name: str, ours: Call, theirs: Call) -> None:
    shop.say(f"library: {name}")
    _microseconds(ours), _microseconds(theirs)
    turns = shop.report.rounds * shop.report.seconds * TURNS
    samples = [(_microseconds(ours), _microseconds(theirs)) for _ in range(turns)]
    own, bare = (statistics.median(column) for column in zip(*samples, strict=True))
    shop.note("library", f"{name}, httpx alone, processor time", bare, "us")
    shop.note("library", f"{name}, portico_client, processor time", own, "us")
    shop.at_most("library", f"{name}: portico_client ÷ httpx", own / bare, "x", MOST)


def _microseconds(call: Call) -> float:
    gc.collect()
    started = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - started) / CALLS * 1e6
