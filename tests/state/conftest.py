"""Stores of counters: in memory, and in a Valkey or Redis server."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

from busy_machine import leave_time
from portico.limits.memory import MemoryLimiter
from portico.limits.protocol import Limiter
from portico.limits.valkey import ValkeyLimiter
from servers import RedisServer, redis_server

Open = Callable[[str], Limiter]


@pytest_asyncio.fixture(params=["memory", "valkey"])
async def open_limiter(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Open]:
    """Opens the limiter of an environment, in each store."""
    leave_time(monkeypatch)
    opened: list[Limiter] = []
    unused = uuid.uuid4().hex  # what an earlier test counted is not found under this name

    def opens(environment: str) -> Limiter:
        if request.param == "memory":
            opened.append(MemoryLimiter())
        else:
            server: RedisServer = request.getfixturevalue("redis")
            opened.append(ValkeyLimiter(server.url, f"{environment}-{unused}"))
        return opened[-1]

    yield opens
    for limiter in opened:
        await limiter.close()


@pytest.fixture
def limiter(open_limiter: Open) -> Limiter:
    """One limiter, in each store."""
    return open_limiter("live")


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """A server that a test may stop."""
    leave_time(monkeypatch)
    with redis_server() as server:
        yield server


@pytest_asyncio.fixture
async def valkey(own_server: RedisServer) -> AsyncIterator[ValkeyLimiter]:
    """A limiter on it."""
    opened = ValkeyLimiter(own_server.url, "live")
    yield opened
    await opened.close()
