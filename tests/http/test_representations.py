"""How much is kept of what is sent, and what goes first."""

import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest

from driving import Headers
from portico.data.database import Dependency
from portico.web.messages import JSON, Reply, Request, TypedRequest
from portico.web.representations import Representations
from portico.web.routing import Access, Endpoint, Route

TYPE = ("content-type", JSON)


async def unchanged(_part: Dependency) -> int:
    return 1


UNCHANGED: Any = SimpleNamespace(db=SimpleNamespace(version_of=unchanged))


def part(request: Request) -> Dependency:
    return (request.path,)


def endpoint(size: int) -> Endpoint:
    """One whose answers are kept, and have so many bytes."""

    async def handler(_request: Request) -> Reply:
        return Reply(200, bytes(size), [TYPE])

    route = Route(
        method="GET",
        path="/{id}",
        handler=handler,
        access=Access.ANY_CALLER,
        summary="Read",
        shows=part,
    )
    return Endpoint(route, "live", "/v1/{id}")


def request(number: int, **headers: str) -> Request:
    """One for this resource."""
    scope: Any = SimpleNamespace(
        method="GET", path=f"/v1/{number}", query_string="", headers=Headers([*headers.items()])
    )
    made: Request = TypedRequest(scope, None, "req_1")
    made.environment = UNCHANGED
    return made


async def test_least_recently_used_go_first() -> None:
    kept, one = Representations(20_000), endpoint(300)
    for number in range(100):
        for _ in range(2):
            await kept.read(request(number), one, part)
        assert await kept.find(request(0), one) is not None
        assert kept.size <= 20_000
    found = [number for number in range(100) if await kept.find(request(number), one)]
    assert len(found) >= 10
    assert found == [0, *range(101 - len(found), 100)]


@pytest.mark.parametrize(("size", "coding"), [(338, "identity"), (4_000, "gzip")])
async def test_what_is_asked_for_once_drives_nothing_out(size: int, coding: str) -> None:
    kept, one = Representations(100_000), endpoint(size)
    asked = [request(number, **{"accept-encoding": coding}) for number in range(1_000)]
    for each in asked:
        await kept.read(each, one, part)
    found = [number for number, each in enumerate(asked) if await kept.find(each, one)]
    assert len(found) >= 10
    assert found == [*range(len(found))]
    await kept.read(asked[-1], one, part)
    assert await kept.find(asked[-1], one) is not None
    assert await kept.find(asked[0], one) is None
    assert await kept.find(asked[1], one) is not None


async def test_nothing_is_kept_without_room() -> None:
    kept, one = Representations(0), endpoint(300)
    for _ in range(3):
        await kept.read(request(1), one, part)
        assert (kept.size, await kept.find(request(1), one)) == (0, None)


async def test_what_is_larger_than_all_the_room_is_not_kept() -> None:
    kept, small, large = Representations(20_000), endpoint(300), endpoint(20_000)
    await kept.read(request(1), small, part)
    for _ in range(3):
        reply = await kept.read(request(1), large, part)
        assert len(reply.body) == 20_000
        assert await kept.find(request(1), large) is None
        assert await kept.find(request(1), small) is not None


async def test_bytes_of_both_codings_count() -> None:
    kept, one = Representations(1 << 20), endpoint(10_000)
    gzip = {"accept-encoding": "gzip"}
    await kept.read(request(1), one, part)
    plain = kept.size
    for _ in range(2):  # one that has changed, or that two have made, is there once
        await kept.read(request(1), one, part)
    assert kept.size == plain
    for _ in range(3):
        reply = await kept.find(request(1, **gzip), one)
        assert reply is not None
        assert kept.size == plain + len(reply.body)


@pytest.mark.parametrize("size", [200, 5_000])
async def test_what_it_counts_is_the_memory_that_it_takes(size: int) -> None:
    kept, one = Representations(1 << 30), endpoint(size)
    tracemalloc.start()
    try:
        for number in range(1_000):
            await kept.read(request(number), one, part)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * kept.size < taken < 1.1 * kept.size
