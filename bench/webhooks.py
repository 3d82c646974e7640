"""Rows of webhooks: their cost for writes, and the delay and rate of deliveries."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from bench import catalog, portico
from bench.client import paced, percentile
from bench.load import Request
from bench.portico import Prepared
from bench.servers import LOAD_CPU, Address, Running, free_port, running
from bench.tls import make_certificate
from bench.workshop import MIDDLE, Job, Workshop

EVENTS_PER_SECOND = 200
BESIDE_PER_SECOND = 500
QUIET_SECONDS = 1.0
"""After so long without a delivery, none is left."""

POST = Request(portico.PRODUCTS, "POST", catalog.new_product(), high=10**8, digits=9)


@contextmanager
def receiving(shop: Workshop) -> Iterator[tuple[Running, str]]:
    """A receiver over TLS on the load's core, and the certificate to trust."""
    certificate, key = make_certificate(shop.directory)
    address = Address(free_port(), tls=True, headers={})
    argv = [sys.executable, "-m", "bench.receiver", "--port", str(address.port)]
    argv += ["--cert", str(certificate), "--key", str(key)]
    with running("receiver", argv, address, probe="/", log=shop.log, cpus=LOAD_CPU) as server:
        yield server, str(certificate)


@contextmanager
def _portico(shop: Workshop, receiver: Running, believed: str, types: str) -> Iterator[Running]:
    """Portico with one webhook for these types."""
    data = that_may_deliver(shop, MIDDLE, believed)
    create(data, receiver.address.port, types)
    with portico.serving(data, shop.log) as server:
        yield replace(server, name=f"a webhook of {types}")


def that_may_deliver(shop: Workshop, count: int, believed: str) -> Prepared:
    """A copy of the data with `count` products, whose webhooks may lead to this machine."""
    data = shop.portico_data(count).copied(shop.fresh("portico-hooked"))
    variables = {"PORTICO_WEBHOOKS_ALLOW": "127.0.0.0/8", "SSL_CERT_FILE": believed}
    return replace(data, environment={**data.environment, **variables})


def create(data: Prepared, port: int, types: str) -> int:
    """Creates a webhook that leads to this port. Returns its id."""
    url = f"https://127.0.0.1:{port}/"
    made = portico.told(data, "webhooks", "create", "--url", url, "--types", types)
    number: int = made["id"]
    return number


def came(receiver: Running) -> dict[str, Any]:
    """The deliveries since the last call."""
    told: dict[str, Any] = json.loads(receiver.address.get("/")[1])
    return told


def drained(receiver: Running) -> dict[str, Any]:
    """Waits until no more deliveries arrive, and returns them."""
    waits: list[float] = []
    count, seconds = 0, 0.0
    while True:
        time.sleep(QUIET_SECONDS)
        new = came(receiver)
        if not new["count"]:
            return {"count": count, "milliseconds": waits, "seconds": seconds}
        count += new["count"]
        seconds += new["seconds"]
        waits += new["milliseconds"]


def webhooks(shop: Workshop) -> None:
    """Writes with and without a matching webhook, the deliveries that they left behind, events at a
    steady rate, and GETs beside deliveries."""
    with ExitStack() as stack:
        receiver, believed = stack.enter_context(receiving(shop))
        hooked = stack.enter_context(_portico(shop, receiver, believed, "*"))
        plain = stack.enter_context(_portico(shop, receiver, believed, "sandbox.*"))
        jobs = [Job(server.name, server, POST) for server in (hooked, plain)]
        with_, without = shop.interleave("webhooks", jobs)
        drained(receiver)
        shop.ratio("webhooks", "a write with a webhook ÷ one without", with_, without, 0.85)
        _latency(shop, receiver, hooked)
        _rate(shop, receiver, hooked)
        _beside(shop, receiver, hooked)


def _latency(shop: Workshop, receiver: Running, server: Running) -> None:
    shop.say(f"webhooks: {EVENTS_PER_SECOND} events/s")
    write(server, EVENTS_PER_SECOND, shop.report.seconds)
    waits = drained(receiver)["milliseconds"]
    what = f"event to delivery at {EVENTS_PER_SECOND}/s"
    shop.at_most("webhooks", f"{what}, p50", percentile(waits, 50), "ms", 30)
    shop.at_most("webhooks", f"{what}, p99", percentile(waits, 99), "ms", 250)


def write(server: Running, per_second: int, seconds: int) -> None:
    """Writes products at fixed times, over so many connections that none waits for another."""
    threads = [
        threading.Thread(target=_posts, args=(server, per_second / 8, seconds, number / per_second))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _posts(server: Running, per_second: float, seconds: int, offset: float) -> None:
    connection = server.address.connect()
    headers = {**server.address.headers, "Content-Type": "application/json"}
    body = catalog.new_product().replace("{N}", "1")
    start = time.perf_counter() + offset
    for number in range(round(per_second * seconds)):
        time.sleep(max(0.0, start + number / per_second - time.perf_counter()))
        connection.request("POST", portico.PRODUCTS, body, headers)
        connection.getresponse().read()
    connection.close()


def _rate(shop: Workshop, receiver: Running, server: Running) -> None:
    shop.say("webhooks: what gathered behind writes")
    shop.interleave("webhooks", [Job("writes before deliveries", server, POST)])
    came(receiver)  # resets the receiver: only deliveries follow
    all_ = drained(receiver)
    rate = all_["count"] / all_["seconds"] if all_["seconds"] else 0.0
    shop.at_least("webhooks", "deliveries beside nothing else", rate, "/s", 1_500)


def _beside(shop: Workshop, receiver: Running, server: Running) -> None:
    shop.say(f"webhooks: GET beside {BESIDE_PER_SECOND} deliveries/s")
    seconds = shop.report.seconds
    quiet = paced(server.address, "/v1/products/1", 100, seconds)
    writers = threading.Thread(target=write, args=(server, BESIDE_PER_SECOND, seconds))
    writers.start()
    beside = paced(server.address, "/v1/products/1", 100, seconds)
    writers.join()
    drained(receiver)
    ratio = percentile(beside, 99) / percentile(quiet, 99)
    what = f"GET beside {BESIDE_PER_SECOND} writes and deliveries/s: p99 ÷ quiet p99"
    shop.at_most("webhooks", what, ratio, "x", 3)
