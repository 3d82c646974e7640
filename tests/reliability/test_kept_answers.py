"""No answer is older than a commit that was acknowledged before its request came in, whoever
committed, also where answers are kept (decision 0029).

Every write gives its product a number of its own, so that each answer says of which state it is.
What a reader was told is held against the states from the last one that was acknowledged as it
asked to the last one that had begun as it was told.
"""

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driving import Api, Caller, InProcess, settings_for
from portico.app import Portico
from portico.core.audit import OPERATOR
from portico.data.sqlite.files import copy
from portico.environment import Environment
from portico.features.catalogue.products import PRODUCTS
from portico.features.people import sandbox
from portico.resource.changes import change_record, create_record, delete_record, unchecked
from portico.resource.file_rows import FileRow
from portico.resource.imports import store_in_batches
from servers import PostgresServer

CATEGORIES = ("chairs", "light")
STATUSES = ("active", "archived")
NAMES = ("chair", "lamp")
_OTHER = {one: other for both in (CATEGORIES, STATUSES, NAMES) for one, other in permutations(both)}
MOST = 15
"""Products: beside the samples, fewer than a page has."""


class State(msgspec.Struct, frozen=True):
    """A product as one write left it."""

    name: str
    category: str
    status: str
    stock_quantity: int


class Told:
    """A product: its states in the order of their commits, and how many of them were acknowledged.
    None: it is not there."""

    def __init__(self, first: State) -> None:
        self.states: list[State | None] = [first]
        self.acknowledged = 1

    @property
    def last(self) -> State | None:
        """The state that was acknowledged last."""
        return self.states[self.acknowledged - 1]

    def possible(self, since: int) -> Sequence[State | None]:
        """What it may have been since so many were acknowledged; it may not have been there yet."""
        return self.states[since - 1 :] if since else [None, *self.states]


class List(msgspec.Struct, frozen=True):
    """A list that holds all it chooses."""

    status: str
    category: str | None
    word: str | None

    @property
    def path(self) -> str:
        chosen = f"&category={self.category}" if self.category else ""
        search = f"&search={self.word}" if self.word else ""
        return f"/products?limit=100&status={self.status}{chosen}{search}"

    def has(self, state: State | None) -> bool:
        """Whether it shows a product in this state."""
        return (
            state is not None
            and state.status == self.status
            and self.category in (None, state.category)
            and self.word in (None, state.name)
        )


LISTS = [
    List(status, category, word)
    for status in STATUSES
    for category, word in ((None, None), ("light", None), (None, "lamp"))
]

Write = tuple[str, int, bool]
"""What is done, to which product, and whether another process does it."""

WRITES = st.tuples(
    st.sampled_from(["create", "stock", "category", "status", "name", "delete"]),
    st.integers(0, MOST - 1),
    st.booleans(),
)


def steps(*whole: str) -> st.SearchStrategy[list[list[Write] | str]]:
    """Writes at once, and what concerns all products."""
    at_once = st.lists(WRITES, min_size=1, max_size=5)
    return st.lists(st.one_of(at_once, at_once, st.sampled_from(whole)), min_size=1, max_size=6)


examples = partial(
    settings,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Shop:
    """The sandbox as a server serves it and another process uses it, and what it must tell."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.numbers = itertools.count(1)
        self.known: dict[int, Told] = {}
        self.other: Environment
        self.caller: Caller

    async def open(self) -> None:
        await self.api.start()
        await self._open_other()

    async def _open_other(self) -> None:
        mine = self.api.portico
        self._others = Portico(
            mine.settings,
            clock=self.api.clock,
            passwords=mine.passwords,
            sender=mine.sender,
            fetcher=mine.fetcher,
        )
        await self._others.connect()
        self.other = self._others.sandbox

    async def close(self) -> None:
        for env in self._others.environments:
            await env.db.close()
        await self.api.stop()

    async def restart(self) -> None:
        await self.close()
        await self.open()

    async def restore(self) -> None:
        """Goes on from a backup in a new directory, whatever came after it."""
        data = self.api.settings.data
        into = data.with_name(f"restored-{next(self.numbers)}")
        into.mkdir()
        for file in data.glob("*.db"):
            copy(file, into / file.name, lambda _: None)
        shutil.copy(data / "secret.key", into)
        before = deepcopy(self.known)
        writes = [("stock", number, False) for number in range(MOST)] if self.known else []
        await self.concurrently([("create", 0, False), *writes])
        await self.close()
        self.api.settings = replace(self.api.settings, data=into)
        self.known = before
        await self.open()

    async def write(self, what: str, product_id: int, *, foreign: bool) -> None:
        """One write, from its beginning to its acknowledgement."""
        if what == "create":
            await self._create(foreign=foreign)
            return
        told = self.known[product_id]
        before = told.last
        assert before is not None
        after = None
        if what != "delete":
            number = next(self.numbers)
            changes = {what: _OTHER[getattr(before, what)]} if what != "stock" else {}
            after = msgspec.structs.replace(before, stock_quantity=number, **changes)
        told.states.append(after)
        await self._store(product_id, after, foreign=foreign)
        told.acknowledged = len(told.states)

    async def _store(self, product_id: int, after: State | None, *, foreign: bool) -> None:
        path = f"/products/{product_id}"
        if foreign and after is None:
            await delete_record(self.other, PRODUCTS, product_id, unchecked, OPERATOR)
        elif after is None:
            assert (await self.caller.delete(path)).status_code == 204
        elif foreign:
            values = msgspec.structs.asdict(after)
            await change_record(self.other, PRODUCTS, product_id, values, unchecked, OPERATOR)
        else:
            answer = await self.caller.patch(path, json=msgspec.structs.asdict(after))
            assert answer.status_code == 200, answer.text

    async def _create(self, *, foreign: bool) -> None:
        number = next(self.numbers)
        name, category = NAMES[number % 2], CATEGORIES[number // 2 % 2]
        state = State(name, category, "active", next(self.numbers))
        values = _values(state)
        if foreign:
            product_id = (await create_record(self.other, PRODUCTS, values, OPERATOR)).id
        else:
            answer = await self.caller.post("/products", json=values)
            product_id = answer.json()["data"]["id"]
        self.known[product_id] = Told(state)

    async def concurrently(self, writes: Sequence[Write]) -> None:
        """Writes at once, each of another product, beside readers."""
        there = [product_id for product_id, told in self.known.items() if told.last is not None]
        chosen: dict[int, Write] = {}
        for what, number, foreign in writes:
            if what == "create" and len(there) < MOST:
                chosen[-1 - len(chosen)] = what, 0, foreign
            elif what != "create" and there:
                chosen[there[number % len(there)]] = what, number, foreign
        await self.beside_readers(
            self.write(what, product_id, foreign=foreign)
            for product_id, (what, _, foreign) in chosen.items()
        )

    async def beside_readers(self, writes: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Does all this while others read, and reads once more when all was acknowledged."""
        over = asyncio.Event()
        async with asyncio.TaskGroup() as readers:
            for turn in range(3):
                readers.create_task(self._read_on(over, turn))
            async with asyncio.TaskGroup() as writers:
                for write in writes:
                    writers.create_task(write)
            over.set()
        await self.read_all()
        await self.read_all()

    async def _read_on(self, over: asyncio.Event, turn: int) -> None:
        reads = [partial(self._read_list, one) for one in LISTS[turn::2]]
        for read in itertools.cycle([*reads, *(partial(self._read, one) for one in self.known)]):
            if over.is_set():
                return
            await read()
            await asyncio.sleep(0)

    async def read_all(self) -> None:
        for product_id in [*self.known]:
            await self._read(product_id)
        for one in LISTS:
            await self._read_list(one)

    async def _get(self, path: str) -> httpx.Response:
        key = ("authorization", self.caller.headers["authorization"])
        return await InProcess(self.api).exchange("GET", f"/sandbox/v1{path}", [key])

    async def _read(self, product_id: int) -> None:
        told = self.known[product_id]
        since = told.acknowledged
        answer = await self._get(f"/products/{product_id}")
        shown = _state(answer.json()["data"]) if answer.status_code == 200 else None
        assert shown in told.possible(since)

    async def _read_list(self, one: List) -> None:
        since = {product_id: told.acknowledged for product_id, told in self.known.items()}
        answer = (await self._get(one.path)).json()
        shown = {item["id"]: _state(item) for item in answer["data"]}
        assert answer["pagination"]["total_items"] == len(shown)
        for product_id, told in self.known.items():
            possible = told.possible(since.get(product_id, 0))
            if product_id in shown:
                assert shown[product_id] in filter(one.has, possible)
            else:
                assert not all(map(one.has, possible))

    async def import_(self) -> None:
        """Another process changes half of all products by a file, which has a new one too."""
        changed = []
        rows = []
        for product_id, told in itertools.islice(self.known.items(), 0, None, 2):
            if told.last is not None:
                after = msgspec.structs.replace(told.last, stock_quantity=next(self.numbers))
                told.states.append(after)
                changed.append(told)
                rows.append(FileRow(1, 0, msgspec.structs.asdict(after), [], product_id))
        new = State("lamp", "light", "active", next(self.numbers))
        rows.append(FileRow(1, 0, _values(new), []))

        async def store() -> None:
            async for _ in store_in_batches(self.other, PRODUCTS, rows, OPERATOR):
                for told in changed:
                    told.acknowledged = len(told.states)
            newest = await self.other.db.one("SELECT max(id) FROM products")
            assert newest is not None
            self.known[newest[0]] = Told(new)

        await self.beside_readers([store()])

    async def reset(self) -> None:
        """Another process puts samples in the place of everything."""
        for told in self.known.values():
            told.states.append(None)

        async def replace_all() -> None:
            await sandbox.reset(self.other, OPERATOR)
            for told in self.known.values():
                told.acknowledged = len(told.states)

        await self.beside_readers([replace_all()])


def _values(state: State) -> dict[str, Any]:
    return {**msgspec.structs.asdict(state), "price": 1}


def _state(item: dict[str, Any]) -> State:
    return msgspec.convert(item, State)


@asynccontextmanager
async def opened(tmp_path: Path, environ: dict[str, str]) -> AsyncIterator[Shop]:
    data = tmp_path / "data"
    data.mkdir()
    shop = Shop(Api(settings_for(data, environ)))
    await shop.open()
    shop.caller = await shop.api.caller("admin", "test")
    yield shop
    await shop.api.aclose()
    await shop.close()


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with opened(tmp_path, {}) as shop:
        yield shop


@pytest.fixture
async def shop_on_postgres(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[Shop]:
    async with opened(tmp_path, {"PORTICO_DATABASE_URL": postgres.fresh_database()}) as shop:
        yield shop


async def go_through(shop: Shop, steps: list[list[Write] | str]) -> None:
    """Takes the steps, and sees after each what is told."""
    for step in steps:
        if isinstance(step, str):
            await getattr(shop, step)()
            await shop.read_all()
        else:
            await shop.concurrently(step)
    shop.known = {key: told for key, told in shop.known.items() if told.last is not None}


@given(steps=steps("import_", "reset", "restart", "restore"))
@examples(max_examples=8)
async def test_no_answer_is_older_than_what_was_acknowledged(
    shop: Shop, steps: list[list[Write] | str]
) -> None:
    await go_through(shop, steps)


@given(steps=steps("import_", "reset", "restart"))
@examples(max_examples=5)
async def test_no_list_is_older_than_what_another_host_has_acknowledged(
    shop_on_postgres: Shop, steps: list[list[Write] | str]
) -> None:
    await go_through(shop_on_postgres, steps)
