"""Clients that read and write continuously through HAProxy, and a record of the responses."""

import asyncio
import itertools
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

READERS = 6
WRITERS = 2
PAUSE_SECONDS = 0.02
"""How long each client waits after a response, so that a machine of two cores can do other work."""
REQUEST_SECONDS = 60.0
PATIENCE_SECONDS = 120.0
"""How long a write is repeated with the same `Idempotency-Key` until it is acknowledged."""
READS = ("/v1/products?limit=25", "/v1/users/me", "/v1/products?status=draft")
PAGE = 100


class Silence:
    """The longest time without a success."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.last = time.monotonic()
        """When the last request succeeded."""

    def ends(self) -> None:
        """Called when a request succeeds, and at the end of the load."""
        now = time.monotonic()
        self.seconds = max(self.seconds, now - self.last)
        self.last = now


@dataclass
class Tally:
    """The outcomes of all requests of a load."""

    served: int = 0
    refused: int = 0
    """Requests answered by 503 with `Retry-After`."""
    failed: Counter[str] = field(default_factory=Counter)
    """Any other failure: other statuses, broken connections."""
    slowest: float = 0.0
    """The longest time to any response, in seconds."""
    reads: Silence = field(default_factory=Silence)
    writes: Silence = field(default_factory=Silence)
    acknowledged: set[str] = field(default_factory=set)
    """Names of products whose creation was answered with 201."""
    unseen: int = 0
    """Acknowledged products that were missing from the list that the writer requested next."""
    stored: Counter[str] = field(default_factory=Counter)
    """Names of the products that are stored at the end, with how often."""

    @property
    def lost(self) -> int:
        """How many products were acknowledged but are not stored."""
        return len(self.acknowledged - set(self.stored))

    @property
    def doubled(self) -> int:
        """How many products are stored again although each had one `Idempotency-Key`."""
        return sum(times - 1 for times in self.stored.values())


class Load:
    """Clients of one origin. They use the `credentials` in turn, which may be changed meanwhile."""

    def __init__(self, origin: str, authority: Path, credentials: list[str]) -> None:
        self.credentials = credentials
        self._origin = origin
        self._context = ssl.create_default_context(cafile=authority)
        self._rounds = itertools.count(1)
        self._products = itertools.count(1)

    @contextmanager
    def calling(self) -> Iterator[Tally]:
        """Runs the clients during the block, then reads what is stored."""
        tally, over = Tally(), threading.Event()
        round_ = f"drill-{next(self._rounds)}-{time.time_ns():x}"
        errors: list[BaseException] = []

        def call() -> None:
            try:
                asyncio.run(self._call(round_, tally, over))
            except BaseException as error:  # noqa: BLE001 - raised again below
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        try:
            yield tally
        finally:
            over.set()
            thread.join()
        if errors:
            raise errors[0]
        asyncio.run(self._look(round_, tally))

    async def _call(self, round_: str, tally: Tally, over: threading.Event) -> None:
        async with self._session() as session:
            await asyncio.gather(
                *(self._reader(session, tally, over) for _ in range(READERS)),
                *(self._writer(session, round_, tally, over) for _ in range(WRITERS)),
            )
        tally.reads.ends()
        tally.writes.ends()

    async def _reader(
        self, session: aiohttp.ClientSession, tally: Tally, over: threading.Event
    ) -> None:
        paths = itertools.cycle(READS)
        while not over.is_set():
            path, credential = next(paths), self._any_credential()
            if await self._ask(session, tally, "GET", path, 200, credential=credential) is not None:
                tally.reads.ends()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _writer(
        self, session: aiohttp.ClientSession, round_: str, tally: Tally, over: threading.Event
    ) -> None:
        while not over.is_set():
            name = f"{round_}-{next(self._products)}"
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    is_stored = await self._write(session, round_, name, tally)
                    await asyncio.sleep(PAUSE_SECONDS)
                    if is_stored:
                        break

    async def _write(
        self, session: aiohttp.ClientSession, round_: str, name: str, tally: Tally
    ) -> bool:
        product = {"name": name, "description": "", "category": round_, "price": 1}
        key = {"Idempotency-Key": name}
        done = await self._ask(session, tally, "POST", "/v1/products", 201, product, key)
        if done is None:
            return False
        tally.acknowledged.add(name)
        tally.writes.ends()
        newest = f"/v1/products?status=draft&category={round_}"
        shown = await self._ask(session, tally, "GET", newest, 200)
        tally.unseen += shown is not None and name not in shown
        return True

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        tally: Tally,
        method: str,
        path: str,
        wanted: int,
        body: object = None,
        headers: dict[str, str] | None = None,
        credential: str | None = None,
    ) -> str | None:
        """The body of the response if it has the wanted status, otherwise None. Without a
        `credential`, the writers' own is used."""
        credential = credential or self.credentials[0]
        sent = {"Authorization": f"Bearer {credential}", **(headers or {})}
        begun = time.monotonic()
        try:
            async with session.request(
                method, self._origin + path, json=body, headers=sent
            ) as answer:
                said = await answer.text()
            if answer.status == wanted:
                tally.served += 1
                return said
            if answer.status == 503 and "Retry-After" in answer.headers:
                tally.refused += 1
            elif answer.status in (400, 422):
                raise ValueError(said)
            else:
                tally.failed[f"{answer.status} {said[:200]}"] += 1
        except (aiohttp.ClientError, TimeoutError) as error:
            tally.failed[f"{type(error).__name__}: {error}"] += 1
        finally:
            tally.slowest = max(tally.slowest, time.monotonic() - begun)
        return None

    def _any_credential(self) -> str:
        return self.credentials[time.monotonic_ns() % len(self.credentials)]

    async def _look(self, round_: str, tally: Tally) -> None:
        path: str | None = f"{self._origin}/v1/products?status=draft&category={round_}&limit={PAGE}"
        sent = {"Authorization": f"Bearer {self.credentials[0]}"}
        async with self._session() as session:
            while path is not None:
                async with session.get(path, headers=sent) as answer:
                    answer.raise_for_status()
                    shown = await answer.json()
                tally.stored.update(product["name"] for product in shown["data"])
                following = answer.links.get("next")
                path = str(following["url"]) if following else None

    def _session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=self._context)
        return aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        )
