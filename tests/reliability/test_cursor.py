"""A cursor beside many writers: who passes on the last id misses no event and sees none twice."""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from following import following, next_event
from operating import Service, at_once
from portico.app import system_clock
from portico.core.events import Published
from portico.data.database import Database
from portico.data.postgres.engine import PostgresDatabase
from portico.data.sqlite.engine import SqliteDatabase
from portico.features.events.storage import Events
from reliability.boundless import beside, boundless
from servers import PostgresServer

WRITERS = 16
OPEN_SECONDS = 1.0
"""How long a transaction stays open that has told an event."""

PAUSE_SECONDS = 1.0
"""Between two of them on SQLite, where nobody else writes meanwhile."""

OPEN_AT_ONCE = 4
"""So many of them on PostgreSQL."""

MOVED = 150
"""Events after which a reader of the stream goes on at the next server."""

LAST = "the last"


class Told(NamedTuple):
    """An event, as a reader was told of it."""

    id: int
    type: str
    name: str


class Servers(NamedTuple):
    """Servers of the same stores, and how another process opens their database."""

    services: list[Service]
    key: str
    database: Callable[[], Database]


@contextmanager
def one_on_sqlite(directory: Path, _request: pytest.FixtureRequest) -> Iterator[Servers]:
    """One server."""
    installation = boundless(directory)
    with installation.serving() as service:
        yield Servers(
            [service], installation.key, lambda: SqliteDatabase(installation.data / "live.db")
        )


@contextmanager
def three_on_postgres(directory: Path, request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Three servers of one database; their limits, which bind nobody here, they do not share."""
    postgres: PostgresServer = request.getfixturevalue("postgres")
    url = postgres.fresh_database()
    places = [directory / name for name in ("first", "second", "third")]
    for place in places:
        place.mkdir()
    first = boundless(places[0], database_url=url)
    hosts = [first, *(beside(first, place) for place in places[1:])]
    with ExitStack() as stack:
        services = [stack.enter_context(host.serving()) for host in hosts]
        yield Servers(services, first.key, lambda: PostgresDatabase(url, "portico_live"))


def told(event: Any) -> Told:
    return Told(event["id"], event["type"], event["data"].get("name", ""))


def pages(servers: Servers) -> Iterator[Told]:
    """All events by the cursor, each page from another server, until the last one."""
    after = 0
    with ExitStack() as stack:
        connections = [(one, stack.enter_context(one.connect())) for one in servers.services]
        for service, connection in itertools.cycle(connections):
            path = f"/v1/events?after={after}&limit=100"
            answer = service.ask(path, key=servers.key, connection=connection)
            assert answer.status == 200, answer
            yield from map(told, answer.json["data"])
            after = answer.json["pagination"]["last_id"]


def stream(servers: Servers, length: int | None) -> Iterator[Told]:
    """All events by the stream, so many of them from one server and then on from the next."""
    after = 0
    for service in itertools.cycle(servers.services):
        with following(service, servers.key, after) as response:
            for _ in itertools.count() if length is None else range(length):
                event = told(next_event(response))
                after = event.id
                yield event


def until_the_last(events: Iterator[Told]) -> list[Told]:
    """The events up to the one that happens when all others have."""
    found: list[Told] = []
    while not (found and found[-1].name == LAST):
        found.append(next(events))
    return found


async def tell_slowly(
    database: Database, number: int, pause: float, over: threading.Event
) -> list[str]:
    """Tells an event in a transaction that stays open, and again, until it is over."""
    names: list[str] = []
    while not over.is_set():
        name = f"open{number} {len(names)}"
        data = json.dumps({"name": name})
        async with database.transaction() as tx:
            await Events(database).add(tx, system_clock(), Published("product.created", data))
            await asyncio.sleep(OPEN_SECONDS)
        names.append(name)
        await asyncio.sleep(pause)
    return names


async def hold_open(database: Database, over: threading.Event) -> list[str]:
    """The names of what was told by transactions that stayed open."""
    await database.open()
    try:
        sqlite = database.engine == "sqlite"
        numbers = range(1 if sqlite else OPEN_AT_ONCE)
        pause = PAUSE_SECONDS if sqlite else 0.0
        each = await asyncio.gather(*(tell_slowly(database, n, pause, over) for n in numbers))
    finally:
        await database.close()
    return list(itertools.chain.from_iterable(each))


def write(service: Service, names: Sequence[str]) -> None:
    with service.connect() as connection:
        for name in names:
            service.make_product(name, connection=connection)


@pytest.mark.parametrize("serving", [one_on_sqlite, three_on_postgres])
def test_readers_beside_many_writers_miss_none_and_are_told_none_twice(
    serving: Callable[..., Any],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    count = int(request.config.getoption("--cursor-events"))
    # Where something fails the servers end first, and with them whoever reads.
    with ThreadPoolExecutor() as pool, serving(tmp_path, request) as servers:
        over = threading.Event()
        ways = [pages(servers), stream(servers, None), stream(servers, MOVED)]
        readers = [pool.submit(until_the_last, way) for way in ways]
        database = servers.database()
        held = pool.submit(lambda: asyncio.run(hold_open(database, over)))
        names = [[f"w{n} {i}" for i in range(count // WRITERS)] for n in range(WRITERS)]
        hosts = servers.services
        started = time.monotonic()
        try:
            at_once(lambda n: write(hosts[n % len(hosts)], names[n]), WRITERS)
        finally:
            over.set()
        seconds = time.monotonic() - started
        expected = sorted([*itertools.chain.from_iterable(names), *held.result(), LAST])
        hosts[0].make_product(LAST)
        seen = [reader.result() for reader in readers]
        listed = until_the_last(pages(servers))
    ids = [event.id for event in listed]
    assert ids == sorted(set(ids))
    assert sorted(event.name for event in listed if event.type == "product.created") == expected
    for events in seen:
        assert events == listed, "what a reader was told is what there is, in the same order"
    record_property(
        f"Cursor on {database.engine}",
        f"{len(listed)} events of {WRITERS} writers on {len(hosts)} servers,"
        f" {len(held.result())} of them in transactions open for {OPEN_SECONDS:.0f} s,"
        f" in {seconds:.1f} s: each of {len(seen)} readers was told all, once",
    )
