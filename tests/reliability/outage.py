"""What callers may see while a store is out of reach: success, or a proper 503."""

import asyncio
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from operating import TIMEOUT_SECONDS, Answer, Installation, Service, lateness, until
from portico.features.events.deliveries import AT_ONCE, CLAIM_SECONDS
from receiving import OK, Receiver

PROMPT_SECONDS = 1.0
"""How long a request may take that needs no store."""

BUSY_MACHINE_SECONDS = 8.0
"""How much longer than it should something may take on a machine with much else to do."""

TICK_SECONDS = 0.02

PRODUCT = {"name": "Lamp", "description": "A lamp", "category": "light", "price": 1}
READS = ("/v1/products/1", "/v1/products?status=draft&page=2", "/v1/products?search=lamp")


class Hook:
    """A webhook whose receiver is told of new products, and is slow."""

    def __init__(self, installation: Installation, receiver: Receiver) -> None:
        url = f"http://127.0.0.1:{receiver.port}/"
        words = ("create", "--url", url, "--types", "product.created")
        self._receiver = receiver
        self._installation = installation
        self._id = installation.told("webhooks", *words)["id"]

    def has_told_once(self, service: Service, products: set[int]) -> None:
        """Waits until these products have been delivered, and sees that all was, at the first
        attempt, and no more at once than may be."""
        # What a process had claimed that did not hear of its commit comes when the claim has ended.
        seconds = CLAIM_SECONDS + TIMEOUT_SECONDS
        until(lambda: products <= {*self._told()}, "the deliveries", seconds)
        log = until(lambda: self._delivered(service), "what came of them", seconds)
        assert {one["attempts"] for one in log} == {1}
        assert len(self._told()) == len({*self._told()}) == len(log)
        assert self._receiver.most_open <= AT_ONCE

    def end(self) -> None:
        """Deletes it."""
        self._installation.told("webhooks", "delete", str(self._id))

    def _told(self) -> list[int]:
        return [json.loads(one.body)["data"]["id"] for one in self._receiver.requests]

    def _delivered(self, service: Service) -> list[dict[str, Any]]:
        """All deliveries, once nothing is pending."""
        found: list[dict[str, Any]] = []
        for page in itertools.count(1):
            path = f"/v1/webhooks/{self._id}/deliveries?limit=100&page={page}"
            shown = service.ask(path, key=service.installation.key).json
            if not shown["data"]:
                break
            found += shown["data"]
        return found if {one["status"] for one in found} == {"delivered"} else []


async def late(writer: asyncio.StreamWriter) -> None:
    """A receiver's answer that takes its time: deliveries are under way for longer than writes."""
    await asyncio.sleep(0.2)
    writer.write(OK)


class Caller:
    """Creates and reads products, and keeps what was acknowledged."""

    def __init__(self, service: Service) -> None:
        """Nobody else may write products from now on."""
        self.service = service
        self.unacknowledged = 0
        self.slowest = 0.0
        """Seconds that an answer took."""
        self.acknowledged = self._found()
        assert self.create() == 201

    def create(self) -> int:
        """Asks for a product. Returns the status."""
        answer = self._ask("/v1/products", method="POST", body=PRODUCT)
        if answer.status == 201:
            self.acknowledged.add(answer.json["data"]["id"])
        else:
            self.unacknowledged += 1
        return answer.status

    def change(self, product: int) -> int:
        """Asks for another price of a product. Returns the status."""
        return self._ask(f"/v1/products/{product}", method="PATCH", body={"price": 2}).status

    def read(self, path: str) -> int:
        """The status of a read."""
        return self._ask(path).status

    def statuses(self, seconds: float, threads: int = 8) -> Counter[tuple[str, int]]:
        """How often creations and reads had which status, asked without pause from many threads
        for some seconds."""
        end = time.monotonic() + seconds

        def ask(number: int) -> Counter[tuple[str, int]]:
            seen: Counter[tuple[str, int]] = Counter()
            for turn in itertools.count(number):
                path = (None, *READS)[turn % 4]
                if path is None:
                    seen["create", self.create()] += 1
                else:
                    seen["read", self.read(path)] += 1
                if time.monotonic() > end:
                    break
            return seen

        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(ask, range(threads)), Counter())

    def recovers(self) -> None:
        """Sees that requests succeed again, without a restart."""
        until(lambda: self.create() == 201, "the recovery")
        until(lambda: {self.read(path) for path in READS} == {200}, "the recovery")

    def finds_what_was_acknowledged(self) -> None:
        """Sees that every acknowledged product is there, and none that nobody asked for."""
        found = self._found()
        assert self.acknowledged <= found
        assert len(found) <= len(self.acknowledged) + self.unacknowledged

    def _found(self) -> set[int]:
        found: set[int] = set()
        page = 1
        while (shown := self._page(page))["data"]:
            found |= {product["id"] for product in shown["data"]}
            page += 1
        assert len(found) == shown["pagination"]["total_items"]
        return found

    def _page(self, number: int) -> Any:
        answer = self._ask(f"/v1/products?status=draft&limit=100&page={number}")
        assert answer.status == 200, answer
        return answer.json

    def _ask(self, path: str, **request: Any) -> Answer:
        asked = time.monotonic()
        answer = self.service.ask(path, key=self.service.installation.key, **request)
        self.slowest = max(self.slowest, time.monotonic() - asked)
        if answer.status >= 400:
            assert answer.error == (503, "SERVICE_UNAVAILABLE"), answer
            assert int(answer.headers["retry-after"]) > 0
        return answer


@contextmanager
def nobody_else_waits(service: Service) -> Iterator[None]:
    """Sees that requests which need no store are answered promptly all the while; a machine that
    has no time for this process either is forgiven."""
    done = threading.Event()

    def slowness() -> float:
        slowest = 0.0
        with service.connect() as connection:
            while not done.wait(TICK_SECONDS):
                asked = time.monotonic()
                assert service.ask("/healthz", connection=connection).status == 200
                slowest = max(slowest, time.monotonic() - asked)
        return slowest

    with ThreadPoolExecutor(1) as pool, lateness() as late:
        slow = pool.submit(slowness)
        try:
            yield
        finally:
            done.set()
        assert slow.result() < PROMPT_SECONDS + late.seconds
