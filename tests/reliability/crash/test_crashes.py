"""`kill -9` at any moment: what was acknowledged is there, once, and nothing is there by half."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from operating import Installation, Service, until
from portico.secret_file import NAME as SECRET_FILE
from reliability.boundless import PER_DAY, beside, boundless
from reliability.crash import told, truth
from reliability.crash.clients import Account, Chain, Client
from reliability.crash.ledger import Kind, Resource
from reliability.crash.told import Received
from reliability.crash.truth import Truth
from servers import RedisServer, postgres_server

CLIENTS = 10
CHAINS = 3
"""How many of the clients have a key of their own, which they rotate."""

KINDS: tuple[Kind, ...] = ("product", "user")
FORGOTTEN_SECONDS = 1.0
"""How much of the day's count a crash may forget."""

BUSY = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND application_name <> 'truth'
    AND state IS DISTINCT FROM 'idle'"""


@dataclass
class Series:
    """Rounds of writing and killing, on servers of one database."""

    hosts: list[Installation]
    truth: Truth
    random: Random = field(default_factory=lambda: Random(20261121))  # noqa: S311 - repeatable
    forgotten_seconds: float = 0.0
    """How much of the day's count a kill may forget."""
    there: dict[Kind, dict[str, Resource]] = field(default_factory=lambda: {k: {} for k in KINDS})
    chains: list[Chain] = field(default_factory=list)
    rounds: int = 0
    acknowledged: int = 0
    events: int = 0
    counted: tuple[str, int] = ("", 0)
    """A day, and how many requests were counted in it when the server last started."""
    account: Account = field(default_factory=Account)
    """The requests since then."""
    received: Received = field(default_factory=Received)
    services: list[Service] = field(default_factory=list)
    """One for each host."""
    clients: list[Client] = field(default_factory=list)

    @property
    def installation(self) -> Installation:
        """Where commands are run."""
        return self.hosts[0]

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Starts all servers, and ends them."""
        self.received.hook(self.installation)
        try:
            for host in self.hosts:
                self.services.append(self._started(host))
            yield
        finally:
            for service in self.services:
                service.end()
            self.received.end()

    def _started(self, host: Installation) -> Service:
        service = Service(host, ())
        try:
            service.wait_until_ready()
            assert service.ask("/healthz").status == 200
        except BaseException:
            service.end()
            raise
        return service

    def kill(self, number: int = 0) -> None:
        """Ends a server's whole process tree at once."""
        service = self.services[number]
        for pid in [*service.workers(), service.process.pid]:
            os.kill(pid, signal.SIGKILL)
        service.process.wait()

    def start(self, number: int = 0) -> None:
        """Starts a server again that was killed."""
        self.services[number] = self._started(self.hosts[number])

    def write(self, number: int, kill: Callable[[], None]) -> None:
        """Lets clients write for a while, then kills, and waits until those of what was killed have
        noticed, and all others have gone on."""
        self._make_chains(number)
        own: list[list[Resource]] = [[] for _ in range(CLIENTS)]
        for kind in KINDS:
            for place, resource in enumerate(self.there[kind].values()):
                own[place % CLIENTS].append(resource)
        self.clients = [
            Client(
                self.services[place % len(self.services)],
                self.account,
                Random(self.random.random()),  # noqa: S311 - repeatable on purpose
                f"r{number}c{place}",
                self.installation.key,
                self.chains[place] if place < CHAINS else None,
            )
            for place in range(CLIENTS)
        ]
        over = threading.Event()
        threads = [
            threading.Thread(target=client.run, args=(mine, over))
            for client, mine in zip(self.clients, own, strict=True)
        ]
        for thread in threads:
            thread.start()
        enough = self.random.choice([1, 50, 50, 150])  # of the start, or of what the counters wait
        until(lambda: sum(client.acknowledged for client in self.clients) >= enough)
        threads[0].join(self.random.uniform(0, 0.1))
        self.killed = time.monotonic()
        kill()
        for client, thread in zip(self.clients, threads, strict=True):
            before = client.acknowledged
            until(lambda: client.acknowledged > before or not thread.is_alive(), "a write")  # noqa: B023 - called at once
        over.set()
        for thread in threads:
            thread.join()
        for client in self.clients:
            if client.surprise is not None:
                raise client.surprise
            self.acknowledged += client.acknowledged

    def check(self) -> None:
        """Sees that what was acknowledged is there, once, and nothing is there by half."""
        self.rounds += 1
        self._check_count()
        for kind in KINDS:
            made = [one for client in self.clients for one in client.resources if one.kind == kind]
            self.there[kind] = self.truth.check(kind, made)
        self._check_lists()
        self._check_keys()

    def _check_count(self) -> None:
        answer = self.services[0].ask("/v1/users/me", key=self.installation.key)
        assert answer.status == 200, answer
        day = answer.headers["x-ratelimit-reset"]
        counted = PER_DAY - int(answer.headers["x-ratelimit-remaining"]) - 1
        if day == self.counted[0]:
            # Counters are stored like all else: where the disk took its time, so did they.
            forgotten = self.forgotten_seconds and self.forgotten_seconds + self.account.slowest
            least = sum(moment <= self.killed - forgotten for moment in self.account.answered)
            new = counted - self.counted[1]
            assert least <= new <= self.account.sent, (least, new, self.account.sent)
        self.counted = day, counted
        self.account = Account(sent=1, answered=[time.monotonic()])

    def _check_lists(self) -> None:
        active = [one for one in self.there["product"].values() if (one.version or 0) % 2 == 0]
        assert self._ask("/v1/products")["pagination"]["total_items"] == len(active)
        people = self._ask("/v1/users")["pagination"]["total_items"]
        assert people == len(self.there["user"]) + 1
        for one in sorted(active, key=lambda one: one.id or 0)[-10:]:
            for version in {one.version or 0, max((one.version or 0) - 1, 0)}:
                hits = self._ask(f"/v1/products?search={one.tag}v{version}+{one.tag}")["data"]
                assert [hit["id"] for hit in hits] == [one.id] * (version == one.version)

    def _check_keys(self) -> None:
        for chain in list(self.chains):
            for key in chain.keys[-2:]:  # the newest, and the one before, which has 24 hours more
                self._ask("/v1/users/me", key)
            keys, rotated = self.truth.rotations(chain.name)
            assert rotated == keys - 1, "a key was rotated by half"
            assert keys in (len(chain.keys), len(chain.keys) + 1)
            if keys != len(chain.keys):  # it was rotated unnoticed: nobody has the successor
                self.chains.remove(chain)

    def _make_chains(self, number: int) -> None:
        owner = self.installation.facts["admin"]["email"]
        while len(self.chains) < CHAINS:
            name = f"chain {number} {len(self.chains)}"
            told = self.installation.told(
                *("keys", "create", "--owner", owner, "--type", "live", "--name", name)
            )
            self.chains.append(Chain(name, [told["key"]]))

    def _ask(self, path: str, key: str | None = None) -> Any:
        answer = self.services[0].ask(path, key=key or self.installation.key)
        assert answer.status == 200, answer
        self.account.sent += 1
        self.account.answered.append(time.monotonic())
        return answer.json

    def check_events(self) -> None:
        """Sees that each change was told, to readers and to the receiver."""
        self.events = told.check(self.services[0], self.installation.key, self.there, self.received)

    def told(self) -> str:
        """What the series did, for people."""
        return (
            f"{self.rounds} rounds, {self.acknowledged} acknowledged writes,"
            f" {self.events} events told and delivered"
        )

    def works(self) -> bool:
        """Whether every server answers again."""
        self.account.sent += len(self.services)
        key = self.installation.key
        return {one.ask("/v1/users/me", key=key).status for one in self.services} == {200}


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How many rounds the long series has."""
    return int(request.config.getoption("--crash-rounds"))


def test_what_was_acknowledged_outlives_a_kill_on_sqlite(
    tmp_path: Path, rounds: int, record_property: Callable[[str, object], None]
) -> None:
    installation = boundless(tmp_path)
    live = truth.of_sqlite(installation.data / "live.db")
    series = Series([installation], live, forgotten_seconds=FORGOTTEN_SECONDS)
    with series.serving():
        for number in range(rounds):
            series.write(number, series.kill)
            assert series.account.unavailable == []
            series.start()
            assert live.read("PRAGMA integrity_check") == [("ok",)]
            series.check()
        series.check_events()
    assert series.acknowledged > rounds
    record_property("SQLite", series.told())


def three_hosts(directory: Path, **stores: str) -> list[Installation]:
    """Three installations on the same stores and with one secret, the first of two workers."""
    places = [directory / name for name in ("first", "second", "third")]
    for place in places:
        place.mkdir()
    first = boundless(places[0], **stores)
    others = [beside(first, place) for place in places[1:]]
    for other in others:
        other.data.mkdir()
        shutil.copy(first.data / SECRET_FILE, other.data / SECRET_FILE)
    return [first.having(workers="2"), *others]


def test_what_was_acknowledged_outlives_kills_of_one_of_three_hosts_and_of_postgresql(
    tmp_path: Path,
    rounds: int,
    redis: RedisServer,
    record_property: Callable[[str, object], None],
) -> None:
    with postgres_server() as postgres:
        url = postgres.fresh_database()
        hosts = three_hosts(tmp_path, database_url=url, valkey_url=redis.url)
        live = truth.of_postgres(url)
        series = Series(hosts, live)
        with series.serving():
            for number in range(max(rounds // 4, 3)):  # of the hosts, and every other time with it
                killed, kill_postgres = number % 3, number % 2 == 1

                def kill(*, host: int = killed, postgres_too: bool = kill_postgres) -> None:
                    if postgres_too:
                        postgres.stop(signal.SIGQUIT)
                    series.kill(host)

                series.write(number, kill)
                if kill_postgres:
                    postgres.start()
                else:
                    assert series.account.unavailable == []
                # What a server process is still at, the next look must not miss.
                until(lambda: live.read(BUSY) == [(0,)], "the end of what was under way")
                series.start(killed)
                until(series.works, "the recovery")
                series.check()
            series.check_events()
    assert series.acknowledged > rounds
    record_property("PostgreSQL", series.told())
