"""Answers that are kept while the data they show is unchanged (decision 0029): nobody can tell them
from those that are made anew, but by the metrics.
"""

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable

import pytest

from driving import TINY, Api, refused
from kept_lists import LISTS, counted, counts, shown
from portico.core.audit import OPERATOR
from portico.core.requests import Sums
from portico.core.times import HOUR
from portico.data.database import NOTHING, Params, Reader, Row, T
from portico.features.catalogue.products import PRODUCTS
from portico.features.operations.requests import HOURS, RequestFilter, Requests
from portico.features.operations.storing import StoreRequests
from portico.features.people import sandbox
from portico.web.reading import decode_query


@pytest.fixture
def environ() -> dict[str, str]:
    """The engine on which anything is kept."""
    return {}


@pytest.mark.parametrize("path", [*LISTS, "/products?page=2&limit=1", "/products?limit=1"])
async def test_a_repeated_list_is_answered_from_memory(api: Api, path: str) -> None:
    reader, other = await api.caller("viewer"), await api.caller("admin")
    for _ in range(2):
        await api.product()
    async with counted(api, misses=1):
        first = await reader.get(path)
    async with counted(api, hits=3):
        answers = [await reader.get(path), await other.get(path), await other.head(path)]
    assert [answer.content for answer in answers] == [first.content, first.content, b""]
    assert len({answer.headers["x-request-id"] for answer in (first, *answers)}) == 4
    for answer in (first, *answers):
        del answer.headers["x-request-id"], answer.headers["x-ratelimit-remaining"]
        assert answer.headers == first.headers


async def test_a_kept_answer_is_304_for_the_tag_of_its_coding(api: Api) -> None:
    reader = await api.caller("viewer")
    await api.product(description="Long enough to be compressed. " * 100)
    path = "/products"
    tags = {}
    for coding in ("gzip", "identity"):
        headers = {"accept-encoding": coding}
        answer = await reader.get(path, headers=headers)
        assert answer.headers.get("content-encoding", "identity") == coding
        tags[coding] = answer.headers["etag"]
    assert tags["gzip"] != tags["identity"]
    async with counted(api, hits=4):
        for coding, known in ((c, k) for c in tags for k in tags):
            headers = {"accept-encoding": coding, "if-none-match": tags[known]}
            answer = await reader.get(path, headers=headers)
            assert answer.status_code == (304 if coding == known else 200)
            assert answer.headers["etag"] == tags[coding]
            assert bool(answer.content) == (coding != known)


async def test_a_write_drops_only_kept_lists_that_can_show_its_product(api: Api) -> None:
    editor = await api.caller("editor")
    lamp, _ = await api.product(), await api.product(category="chairs")
    stays = ["/products?category=chairs", "/products?status=draft"]
    for path in (*LISTS, *stays):
        await editor.get(path)
    async with counted(api, hits=len(LISTS) + len(stays)):
        for path in (*LISTS, *stays):
            await editor.get(path)
    changed = await editor.patch(f"/products/{lamp.id}", json={"price": 7})
    assert changed.status_code == 200
    async with counted(api, hits=len(stays)):
        for path in stays:
            await editor.get(path)
    async with counted(api, misses=len(LISTS)):
        for path in LISTS:
            items = await shown(editor, path)
            assert [item["price"] for item in items if item["id"] == lamp.id] == [7]


async def test_kept_answers_of_environments_are_apart(api: Api) -> None:
    live = await api.caller("admin")
    test = await api.caller("admin", "test", user=live.user)
    here, there = await api.product(name="Here"), await api.product(api.sandbox, name="There")
    assert here.id == there.id
    for _ in range(2):
        for caller, name in ((live, "Here"), (test, "There")):
            assert [item["name"] for item in await shown(caller, "/products")] == [name]
    await sandbox.reset(api.sandbox, OPERATOR)
    refused(await test.get(f"/products/{there.id}"), 404)
    items = await shown(test, "/products")
    assert "There" not in {item["name"] for item in items}
    async with counted(api, hits=1):
        await shown(live, "/products")


async def test_a_kept_answer_passes_permission_limits_and_validation_first(api: Api) -> None:
    reader, hurried = await api.caller("viewer"), await api.caller("viewer", plan=TINY)
    narrow, _ = await api.caller("admin"), await api.product()
    async with api.live.db.transaction() as tx:
        sql = "UPDATE api_keys SET scopes = 'read:users' WHERE id = :id"
        await tx.run(sql, {"id": narrow.record.id})
    path = "/products"
    await shown(reader, path)
    async with counted(api, hits=3):
        refused(await narrow.get(path), 403)
        refused(await api.stranger().get(path), 401)
        refused(await api.stranger(authorization="Bearer sk_live_x").get(path), 401)
        answers = [await hurried.get(path) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 2
        left = [answer.headers["x-ratelimit-remaining"] for answer in answers]
        assert left == ["2", "1", "0", "0", "0"]
        refused(await reader.get(path, headers={"accept": "text/csv"}), 406)
        refused(await reader.get(f"{path}?x=1"), 400)
        refused(await reader.post(path, json={}), 403)
    await StoreRequests(api.live, "test").run()
    asked = RequestFilter(hurried.user.id)
    summary = await api.live[Requests].summary(HOURS, asked, api.clock())
    assert summary.over_time == {api.clock() // HOUR: Sums(5, refused=2)}


async def test_single_resources_errors_and_answers_to_one_caller_are_not_kept(api: Api) -> None:
    caller = await api.caller("admin")
    await api.product()
    async with counted(api):
        for path in (
            *("/products/1", "/products/9", "/products?limit=0", "/nowhere"),
            *("/users", "/users/me", "/api-keys", "/products?search=%FF"),
        ):
            for _ in range(2):
                await caller.get(path)
    assert (await counts(api)).size == 0


class Late:
    """The reads of one snapshot, whose results come when they are let."""

    def __init__(self, reader: Reader, read: asyncio.Event, go_on: asyncio.Event) -> None:
        self._reader = reader
        self._read = read
        self._go_on = go_on

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        """See `Reader`."""
        rows = await self.all(sql, params)
        return rows[0] if rows else None

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        """See `Reader`."""
        rows = await self._reader.all(sql, params)
        self._read.set()
        await self._go_on.wait()
        return rows


async def test_a_read_before_a_commit_is_not_kept_after_it(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    read, go_on = asyncio.Event(), asyncio.Event()
    snapshot = api.live.db.snapshot

    async def late(work: Callable[[Reader], Awaitable[T]]) -> T:
        return await snapshot(lambda reader: work(Late(reader, read, go_on)))

    api.live.db.snapshot = late  # type: ignore[method-assign]
    path = "/products?search=lamp"
    earlier = asyncio.create_task(shown(editor, path))
    await read.wait()
    changed = await editor.patch(f"/products/{product.id}", json={"price": 9})
    assert changed.status_code == 200
    go_on.set()
    (before,) = await earlier
    assert before["price"] == 1
    for _ in range(2):
        (item,) = await shown(editor, path)
        assert item["price"] == 9


def test_decoded_queries_hold_bounded_memory() -> None:
    tracemalloc.start()
    for number in range(200):
        decode_query(PRODUCTS.query, f"min_price=1.{number}{'0' * 60_000}")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2**20
