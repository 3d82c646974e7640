"""How far the log was at each caller's last write: the farthest is kept, for a while."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable

import pytest

from answering import answering
from busy_machine import leave_time
from operating import eventually
from portico.core.errors import Unavailable
from portico.data.postgres import replicas
from portico.data.postgres.replicas import LIFE_SECONDS, MemoryPositions, Positions
from portico.limits.valkey import ValkeyPositions
from servers import RedisServer, redis_server

Keep = Callable[[float], Positions]


@pytest.fixture(params=["memory", "valkey"])
async def keeping(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Keep]:
    """Makes a store that keeps positions for so many seconds."""
    leave_time(monkeypatch)
    opened: list[Positions] = []

    def keep(life: float) -> Positions:
        monkeypatch.setattr(replicas, "LIFE_SECONDS", life)
        store: Positions = MemoryPositions()
        if request.param == "valkey":
            redis: RedisServer = request.getfixturevalue("redis")
            store = ValkeyPositions(redis.url, "live", f"positions-{life}", life, lag=0)
        opened.append(store)
        return store

    yield keep
    for store in opened:
        await store.close()


async def test_farthest_position_of_each_caller_is_kept(keeping: Keep) -> None:
    kept = keeping(60.0)
    far = 2**52 + 1  # more bytes of a log than anybody has, to the last one
    await kept.note(1, far)
    await kept.note(1, 7)  # of another host, which was slower to tell
    await kept.note(2, 9)
    assert [await kept.of(caller) for caller in (1, 2, 3)] == [far, 9, 0]


async def test_position_is_forgotten_after_its_life(keeping: Keep) -> None:
    kept = keeping(0.1)
    await kept.note(1, 7)

    async def is_forgotten() -> bool:
        return await kept.of(1) == 0

    await eventually(is_forgotten, "the end of its life")


async def test_store_of_positions_that_is_away_is_told() -> None:
    away = ValkeyPositions("redis://127.0.0.1:1/0", "live", "positions", LIFE_SECONDS, lag=0)
    with pytest.raises(Unavailable):
        await away.note(1, 1)
    with pytest.raises(Unavailable):
        await away.of(1)
    await away.close()


@pytest.mark.parametrize("answer", [b"+OK\r\n", b"*1\r\n:1\r\n"], ids=["no number", "a list"])
async def test_what_is_no_store_of_positions_is_told(answer: bytes) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.read(65_536):
            writer.write(b"+OK\r\n" * request.count(b"CLIENT") or answer)

    async with answering(say) as port:
        kept = ValkeyPositions(f"redis://127.0.0.1:{port}/0", "live", "p", LIFE_SECONDS, lag=0)
        with pytest.raises(Unavailable):
            await kept.of(1)
        await kept.close()


async def test_what_a_new_store_of_positions_may_have_lost_is_not_taken_for_known() -> None:
    async def refusals() -> AsyncIterator[str]:
        """What is told until a position is."""
        async with asyncio.timeout(20):
            while True:
                try:
                    await kept.of(1)
                except Unavailable as error:
                    yield error.message
                    await asyncio.sleep(0.01)
                else:
                    return

    lost = "The store of positions may have lost the latest ones."
    with redis_server() as server:
        kept = ValkeyPositions(server.url, "live", "positions", LIFE_SECONDS, lag=0.5)
        assert lost in {told async for told in refusals()}
        server.stop(signal.SIGKILL)
        server.start()
        assert lost in {told async for told in refusals()}
        await kept.close()
