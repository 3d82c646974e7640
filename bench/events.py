"""Rows of events: many followers of streams, deliveries beside a million due to a dead webhook, and
a cursor anywhere in ten million events."""

import asyncio
import contextlib
import json
import time

import apsw
from bench import catalog, portico
from bench.client import percentile
from bench.latency import one_at_a_time
from bench.load import Request
from bench.portico import Prepared
from bench.servers import Address, BenchError, Running, anything_goes, free_port
from bench.webhooks import create, drained, receiving, that_may_deliver, write
from bench.workshop import SMALL, Workshop, check_answer

STREAMS = 1_000
STREAMS_OF_AN_ACCOUNT = 10
TOLD = 50
"""How many events all streams are sent."""
TOLD_PER_SECOND = 4

DUE = 1_000_000
BESIDE_PER_SECOND = 50

EVENTS = 10_000_000

_DATA = json.dumps(json.loads(catalog.new_product().replace("{N}", "1")))

_NUMBERS = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
"""
_MANY_EVENTS = """
INSERT INTO events (type, at, data)
SELECT CASE n % 50 WHEN 0 THEN 'user.updated' ELSE 'product.updated' END, :at, :event
FROM numbers"""
_MANY_DUE = """
INSERT INTO deliveries (webhook_id, event_id, type, status, attempts, next_attempt_at, created_at)
SELECT :webhook, n, 'product.updated', 'pending', 1, :at - n % 1000, :at FROM numbers"""


def _insert(data: Prepared, sql: str, **values: object) -> None:
    """Inserts rows directly, which would take an hour to create through the API."""
    connection = apsw.Connection(str(data.directory / "live.db"))
    connection.execute("PRAGMA synchronous = OFF")
    with connection:
        connection.execute(_NUMBERS + sql, values)
    connection.close()


def streams(shop: Workshop) -> None:
    """The memory of 1,000 open streams, and how soon the last of them gets an event."""
    with shop.portico(SMALL, tls_on=True) as server:
        tokens = _accounts(shop, server, STREAMS // STREAMS_OF_AN_ACCOUNT)
        _get_warm(server)
        asyncio.run(_follow(shop, server, tokens))


def _accounts(shop: Workshop, server: Running, count: int) -> list[str]:
    shop.say(f"streams: {count} accounts")
    tokens = []
    connection = server.address.connect()
    headers = {**server.address.headers, "Content-Type": "application/json"}
    for number in range(count):
        account = {"email": f"follower-{number}@example.com", "password": "Follows-events-1"}
        posts = (("/v1/users", {"name": "Follower", **account}, 201), ("/auth/login", account, 200))
        for path, body, wanted in posts:
            connection.request("POST", path, json.dumps(body), headers)
            headers = {"Content-Type": "application/json"}
            answer = connection.getresponse()
            told = json.loads(answer.read())
            if answer.status != wanted:
                raise BenchError(f"POST {path} answered {answer.status}: {told}")
        tokens.append(told["access_token"])
        headers = {**server.address.headers, "Content-Type": "application/json"}
    connection.close()
    return tokens


def _get_warm(server: Running) -> None:
    for _ in range(200):
        check_answer(server, "/v1/products/1", b'"id":1')


async def _follow(shop: Workshop, server: Running, tokens: list[str]) -> None:
    before = server.memory_kib()
    shop.say(f"streams: opening {STREAMS:,}")
    last: dict[int, float] = {}
    ready = asyncio.Semaphore(0)
    followers = [
        asyncio.create_task(_stream(server.address, token, last, ready))
        for token in tokens
        for _ in range(STREAMS_OF_AN_ACCOUNT)
    ]
    for _ in followers:
        await asyncio.wait_for(ready.acquire(), 60)
    each = (server.memory_kib() - before) / len(followers)
    shop.at_most("streams", f"each of {STREAMS:,} open streams", each, "KiB", 40)
    shop.say(f"streams: telling {TOLD} events")
    sent = await asyncio.to_thread(_tell, server)
    await asyncio.wait_for(asyncio.gather(*followers), 60)
    waits = [(last[number] - at) * 1000 for number, at in enumerate(sent, min(last))]
    shop.note("streams", "event → last stream, p50", percentile(waits, 50), "ms")
    shop.at_most("streams", "event → last stream, p99", percentile(waits, 99), "ms", 500)


async def _stream(
    address: Address, token: str, last: dict[int, float], ready: asyncio.Semaphore
) -> None:
    """Follows a stream to its last event; records when the last stream got each event."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", address.port, ssl=anything_goes(), server_hostname="localhost"
    )
    writer.write(
        b"GET /v1/events/stream?type=product.created HTTP/1.1\r\nHost: localhost\r\n"
        b"Authorization: Bearer %b\r\n\r\n" % token.encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise BenchError(f"a stream was refused: {head[:200]!r}")
    ready.release()
    told = number = 0
    while told < TOLD:
        line = await reader.readline()
        if line.startswith(b"id:"):  # an id without data only gives the position
            number = int(line[3:])
        elif line.startswith(b"data:"):
            last[number] = time.perf_counter()
            told += 1
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _tell(server: Running) -> list[float]:
    connection = server.address.connect()
    headers = {**server.address.headers, "Content-Type": "application/json"}
    body = catalog.new_product().replace("{N}", "1")
    sent = []
    for _ in range(TOLD):
        time.sleep(1 / TOLD_PER_SECOND)
        sent.append(time.perf_counter())
        connection.request("POST", portico.PRODUCTS, body, headers)
        connection.getresponse().read()
    connection.close()
    return sent


def dead(shop: Workshop) -> None:
    """How long a webhook's deliveries wait while a million are due to another one that is dead."""
    with receiving(shop) as (receiver, believed):
        quiet, beside = [_told_beside(shop, receiver, believed, due) for due in (0, DUE)]
    shop.note("dead", "event → delivery, p50", percentile(quiet, 50), "ms")
    for percent in (50, 99):
        ratio = percentile(beside, percent) / percentile(quiet, percent)
        what = f"event → delivery, p{percent}, beside {DUE:,} due of a dead webhook ÷ quiet"
        shop.at_most("dead", what, ratio, "x", 2)


def _told_beside(shop: Workshop, receiver: Running, believed: str, due: int) -> list[float]:
    data = that_may_deliver(shop, SMALL, believed)
    shop.say(f"dead: {due:,} deliveries due")
    now = time.time_ns() // 1_000_000
    if due:
        _insert(data, _MANY_EVENTS, count=due, at=now, event=_DATA)
    gone = create(data, free_port(), "sandbox.*")
    create(data, receiver.address.port, "product.*")
    if due:
        _insert(data, _MANY_DUE, count=due, at=now, webhook=gone)
    with portico.serving(data, shop.log) as server:
        write(server, BESIDE_PER_SECOND, 1)
        drained(receiver)
        shop.say(f"dead: {BESIDE_PER_SECOND} events/s for another webhook")
        write(server, BESIDE_PER_SECOND, shop.report.seconds)
        waits: list[float] = drained(receiver)["milliseconds"]
    return waits


def cursor(shop: Workshop) -> None:
    """A page of events anywhere in ten million, compared with the first page."""
    data = shop.portico_data(SMALL).copied(shop.fresh("portico-events"))
    shop.say(f"cursor: writing {EVENTS:,} events")
    _insert(data, _MANY_EVENTS, count=EVENTS, at=time.time_ns() // 1_000_000, event=_DATA)
    with portico.serving(data, shop.log) as server:
        for kind in ("", "&type=user.updated"):
            said = "of one type in 50" if kind else "of all types"
            first = one_at_a_time(
                shop, "cursor", f"first page {said}", server, Request(f"/v1/events?after=0{kind}")
            )
            anywhere = Request(f"/v1/events?after={{N}}{kind}", high=EVENTS - 10_000)
            any_ = one_at_a_time(shop, "cursor", f"any page {said}", server, anywhere)
            what = f"any of {EVENTS:,} events {said} ÷ the first page, p50"
            shop.at_most("cursor", what, any_.p50_ms / first.p50_ms, "x", 2)
