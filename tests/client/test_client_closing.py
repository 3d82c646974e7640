"""Closing what others still wait for: streams of events, and clients."""

import asyncio
import threading
from typing import Any

import httpx
import pytest

from client.scripted import KEY, PLACE, Scripted
from client.test_client_streams import AWAY, EXPIRED, LONG, WAITING, Last
from operating import PATIENCE_SECONDS
from portico_client import AsyncClient, Client, Login
from portico_client.streams import EventStream


class Follower(threading.Thread):
    """A thread that reads a stream to its end."""

    def __init__(self, events: EventStream) -> None:
        super().__init__(daemon=True)
        self._events = events
        self.ids: list[int] | None = None

    def run(self) -> None:
        """See `threading.Thread`."""
        self.ids = [event.id for event in self._events]


def test_closing_ends_a_stream_that_waits_for_anothers_renewal() -> None:
    steps, options = WAITING["to renew its token"]
    renews = threading.Event()

    def limit(_: httpx.Request) -> httpx.Response:
        renews.set()
        return httpx.Response(429, headers={"retry-after": "3600"}, json={})

    script = Last(*steps[:-1], limit, EXPIRED)
    own: dict[str, Any] = {"random": lambda: 0, "patience": 3600, **options}
    with Client(base_url=PLACE, transport=script, **own) as client:
        streams = [client.events.stream(after=0) for _ in range(2)]
        first, second = (Follower(events) for events in streams)
        first.start()
        assert renews.wait(PATIENCE_SECONDS)
        second.start()
        assert script.taken.wait(PATIENCE_SECONDS)
        streams[1].close()
        second.join(PATIENCE_SECONDS)
        assert (second.ids, first.is_alive()) == ([], True)
        streams[0].close()
        first.join(PATIENCE_SECONDS)
        assert first.ids == [1]


def test_a_closed_stream_does_not_tell_how_its_attempt_to_connect_failed() -> None:
    connects, fails = threading.Event(), threading.Event()

    def connect(_: httpx.Request) -> httpx.Response:
        connects.set()
        fails.wait(PATIENCE_SECONDS)
        raise AWAY

    with Client(KEY, base_url=PLACE, transport=Scripted(connect), retries=0) as client:
        events = client.events.stream(after=0)
        follower = Follower(events)
        follower.start()
        assert connects.wait(PATIENCE_SECONDS)
        events.close()
        fails.set()
        follower.join(PATIENCE_SECONDS)
        assert follower.ids == []


async def test_closing_ends_a_stream_for_who_went_on_after_a_cancellation() -> None:
    script = Last(LONG)
    client = AsyncClient(KEY, base_url=PLACE, transport=script, patience=3600)
    events = client.events.stream(after=0)

    async def work_and_drain() -> list[int]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return [event.id async for event in events]
        return []

    draining = asyncio.ensure_future(work_and_drain())
    await asyncio.sleep(0)
    draining.cancel()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.to_thread(script.taken.wait)
        await events.close()
        assert await draining == []


async def test_a_client_is_closed_at_once_where_a_renewal_pauses() -> None:
    steps, options = WAITING["to renew its token"]
    script = Last(*steps)
    own: dict[str, Any] = {"random": lambda: 0, "patience": 3600, **options}
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with AsyncClient(base_url=PLACE, transport=script, **own) as client:
            following = asyncio.ensure_future(ids(client))
            await asyncio.to_thread(script.taken.wait)
        with pytest.raises(RuntimeError, match="closed"):
            await following


async def test_a_client_that_is_closed_waits_for_no_pause_that_begins_then() -> None:
    begun, may = asyncio.Event(), asyncio.Event()

    class Limiting(httpx.AsyncBaseTransport):
        """Refuses a sign-in for an hour, once it may."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            """See `httpx.AsyncBaseTransport`."""
            begun.set()
            await may.wait()
            return httpx.Response(429, headers={"retry-after": "3600"}, json={}, request=request)

    login = Login("ada@example.com", "p")
    client = AsyncClient(auth=login, base_url=PLACE, transport=Limiting(), patience=3600)
    calling = asyncio.ensure_future(client.me())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await begun.wait()
        closing = asyncio.ensure_future(client.close())
        await asyncio.sleep(0)
        may.set()
        await closing
        with pytest.raises(RuntimeError, match="closed"):
            await calling


async def ids(client: AsyncClient) -> list[int]:
    """What a stream tells until it ends."""
    return [event.id async for event in client.events.stream(after=0)]
