"""Streams of events: read as the standard has them, and gone on with, whatever breaks."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.scripted import (
    ANYBODY,
    CASES,
    KEY,
    PLACE,
    PRODUCT,
    TOKENS,
    Parts,
    Scripted,
    answer,
    refusal,
)
from operating import TIMEOUT_SECONDS, eventually
from portico_client import (
    AsyncClient,
    Client,
    EventFilters,
    Login,
    UnexpectedAnswer,
)
from portico_client.drivers import AT_ONCE
from portico_client.sse import Message, Parser

COMMENT = b":\n\n"
BROKEN = httpx.ReadError("it broke")


def event(id_: int) -> dict[str, Any]:
    """An event as the service tells it."""
    return {
        "id": id_,
        "type": "product.created",
        "timestamp": "2026-03-15T12:00:00.000Z",
        "data": {**PRODUCT, "name": f"Lámp {id_}"},
    }


def told(*ids: int) -> bytes:
    """Events in a stream."""
    return "".join(
        f"id: {id_}\nevent: product.created\ndata: {json.dumps(event(id_), ensure_ascii=False)}\n\n"
        for id_ in ids
    ).encode()


def stream(*parts: bytes | httpx.RequestError) -> Callable[[httpx.Request], httpx.Response]:
    """An answer that is a stream."""
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    return lambda _: httpx.Response(200, headers=headers, stream=Parts(*parts))


def ids_asked(script: Scripted) -> list[str | None]:
    """After which events the streams were asked for."""
    return [request.headers.get("last-event-id") for request in script.requests]


class Stage:
    """A client before a script, and the waits that it asks for."""

    def __init__(self, *steps: Any, **options: Any) -> None:
        self.waits: list[float] = []
        self.script = Scripted(*steps)
        own: dict[str, Any] = {"api_key": KEY, "random": lambda: 1.0, **options}
        self.client = Client(base_url=PLACE, transport=self.script, sleep=self.waits.append, **own)

    def ids(self, count: int, **filters: Any) -> list[int]:
        """The ids of the first events of a stream."""
        with self.client, self.client.events.stream(**filters) as events:
            return [next(events).id for _ in range(count)]


def parsed(content: bytes, cuts: list[int]) -> list[Message]:
    """The messages of what arrives in parts."""
    ends = sorted({min(cut, len(content)) for cut in cuts} | {len(content)})
    parser, start = Parser(), 0
    found: list[Message] = []
    for end in ends:
        if end > start:
            found += parser.feed(content[start:end])
            start = end
    return found


cuts = st.lists(st.integers(1, 400), max_size=12)


LINES = (
    ": hello||id: 1|event: any|data: é|data|data:  two||retry: 5|id: 2\0|data:x||id:7||id: 8|data:"
)


@CASES
@given(places=cuts, line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]), marked=st.booleans())
def test_messages_are_the_same_however_they_are_cut(
    *, places: list[int], line_end: bytes, marked: bool
) -> None:
    content = LINES.encode().replace(b"|", line_end) + line_end
    assert parsed((b"\xef\xbb\xbf" if marked else b"") + content, places) == [
        Message("", None),
        Message("é\n\n two", "1"),
        Message("x", "1"),
        Message("", "7"),
    ]


faults: st.SearchStrategy[list[httpx.RequestError]] = st.sampled_from(
    [[], [BROKEN], [httpx.ReadTimeout("silent")]]
)


@CASES
@given(st.integers(0, 12), st.lists(st.integers(0, 700), min_size=1, max_size=9), st.data())
def test_every_event_comes_once_wherever_connections_break(
    count: int, ends: list[int], data: st.DataObject
) -> None:
    left = iter(ends)

    def serve(request: httpx.Request) -> httpx.Response:
        last = int(request.headers["last-event-id"])
        content = told(*range(last + 1, count + 1)) + told(99)
        end = next(left, len(content))
        parts = [content[at : at + 64] for at in range(0, end, 64)]
        fault = data.draw(faults)
        return stream(*[part[: end - 64 * i] for i, part in enumerate(parts)], *fault)(request)

    stage = Stage(*[serve] * (len(ends) + count + 2))
    assert stage.ids(count + 1, after=0) == [*range(1, count + 1), 99]


def test_a_stream_begins_where_it_is_told_to() -> None:
    stage = Stage(stream(told(18), httpx.ReadTimeout("silent")), stream(told(19)), timeout=3)
    assert stage.ids(2, type="product.*,user.created", after=17) == [18, 19]
    first, _ = stage.script.requests
    assert first.url.raw_path == b"/v1/events/stream?type=product.%2A%2Cuser.created"
    assert first.headers["accept"] == "text/event-stream"
    assert ids_asked(stage.script) == ["17", "18"]
    for request in stage.script.requests:
        assert request.extensions["timeout"] == {"connect": 3, "read": 45, "write": 3, "pool": 3}


def test_a_credential_is_renewed_where_it_has_ended() -> None:
    stage = Stage(
        answer(200, TOKENS),
        stream(told(1)),
        refusal(401, "AUTHENTICATION_REQUIRED"),
        answer(200, {**TOKENS, "access_token": "b"}),
        stream(told(2)),
        api_key=None,
        auth=Login("ada@example.com", "p"),
    )
    assert stage.ids(2) == [1, 2]
    *_, refused, renewing, last = stage.script.requests
    assert refused.headers["authorization"] == "Bearer a"
    assert renewing.url.path == "/auth/refresh"
    assert (last.headers["authorization"], last.headers["last-event-id"]) == ("Bearer b", "1")


@pytest.mark.parametrize("repeated", [b"x" * 2**20, b"data: " + b"x" * 2**20 + b"\n"])
def test_a_message_without_an_end_is_an_error_before_it_fills_the_memory(repeated: bytes) -> None:
    endless = Parts(told(1) + b"data: ", *[repeated] * 1000)
    headers = {"content-type": "text/event-stream"}
    stage = Stage(lambda _: httpx.Response(200, headers=headers, stream=endless), stream(told(2)))
    with stage.client, stage.client.events.stream() as events:
        assert next(events).id == 1
        with pytest.raises(UnexpectedAnswer, match="larger than 16 MiB"):
            next(events)
        assert endless.closed
        assert next(events).id == 2
    assert ids_asked(stage.script) == [None, "1"]


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}", b"1e" + b"9" * 20])
def test_what_is_no_event_is_an_error_and_the_next_one_is_told(data: bytes) -> None:
    stage = Stage(stream(told(1) + b"id: 2\ndata: " + data + b"\n\n" + told(3)))
    with stage.client, stage.client.events.stream() as events:
        next(events)
        with pytest.raises(UnexpectedAnswer):
            next(events)
        assert next(events).id == 3


def test_a_closed_stream_has_no_more_events() -> None:
    body = Parts(told(1, 2))
    headers = {"content-type": "text/event-stream"}
    stage = Stage(lambda _: httpx.Response(200, headers=headers, stream=body))
    with stage.client:
        with stage.client.events.stream() as events:
            assert next(events).id == 1
            assert not body.closed
        assert body.closed
        assert list(events) == []
        unused = stage.client.events.stream()
        unused.close()
        assert list(unused) == []
    assert len(stage.script.requests) == 1


LONG = refusal(503, "SERVICE_UNAVAILABLE", retry_after="3600")
EXPIRED = refusal(401, "AUTHENTICATION_REQUIRED")
WAITING: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "for its first connection": ([LONG], {"api_key": KEY}),
    "to repeat a later one": ([stream(told(1)), LONG], {"api_key": KEY}),
    "to make a later one": ([stream(told(1)), LONG], {"api_key": KEY, "retries": 0}),
    "to renew its token": (
        [answer(200, TOKENS), stream(told(1)), EXPIRED, refusal(429, "ANY", retry_after="3600")],
        {"auth": Login("ada@example.com", "p")},
    ),
}
"""What comes of the requests, the last of which has a client wait for an hour."""
waiting = pytest.mark.parametrize(("steps", "options"), WAITING.values(), ids=WAITING)


class Last(Scripted):
    """Tells when the last of its steps was taken."""

    def __init__(self, *steps: Any) -> None:
        super().__init__(*steps)
        self._count = len(steps)
        self.taken = threading.Event()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answered = super().handle_request(request)
        if len(self.requests) == self._count:
            self.taken.set()
        return answered


@waiting
def test_closing_ends_a_stream_that_waits(steps: list[Any], options: dict[str, Any]) -> None:
    script = Last(*steps)
    own: dict[str, Any] = {"random": lambda: 0, "patience": 3600, **options}
    with Client(base_url=PLACE, transport=script, **own) as client:
        events = client.events.stream(after=0)
        thread = threading.Thread(target=list, args=(events,), daemon=True)
        thread.start()
        assert script.taken.wait(TIMEOUT_SECONDS)
        events.close()
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()
        assert list(events) == []


@waiting
async def test_closing_ends_an_asynchronous_stream_that_waits(
    steps: list[Any], options: dict[str, Any]
) -> None:
    script = Last(*steps)
    own: dict[str, Any] = {"random": lambda: 0, "patience": 3600, **options}
    client = AsyncClient(base_url=PLACE, transport=script, **own)
    events = client.events.stream(after=0)

    async def follow() -> list[int]:
        return [event.id async for event in events]

    following = asyncio.ensure_future(follow())
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await asyncio.to_thread(script.taken.wait)
        await events.close()
        assert await following == [1][: len(steps) - 1]
        assert [one async for one in events] == []


class Told(httpx.AsyncByteStream):
    """A stream that tells what it is given, and stays open."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield await self.parts.get()

    async def aclose(self) -> None:
        self.closed.set()


async def test_who_waits_with_a_deadline_may_do_so_again_over_the_same_connection() -> None:
    body, headers = Told(), {"content-type": "text/event-stream"}
    script = Scripted(lambda _: httpx.Response(200, headers=headers, stream=body))
    async with (
        AsyncClient(KEY, base_url=PLACE, transport=script) as client,
        client.events.stream(after=0) as events,
    ):
        for id_ in range(1, 4):
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await anext(events)
            body.parts.put_nowait(told(id_))
            assert (await anext(events)).id == id_
        assert not body.closed.is_set()
    assert body.closed.is_set()
    assert len(script.requests) == 1


def pages(size: int, newest: int) -> Callable[[httpx.Request], httpx.Response]:
    """The pages of events up to the newest."""

    def serve(request: httpx.Request) -> httpx.Response:
        after = int(request.url.params.get("after", 0))
        ids = range(after + 1, min(after + size, newest) + 1)
        more = ids.stop <= newest
        place = {"limit": size, "has_more": more, "last_id": ids[-1] if ids else after}
        return httpx.Response(200, json={"data": [*map(event, ids)], "pagination": place})

    return serve


@pytest.mark.parametrize("newest", [0, 1, 3, 4, 6])
def test_a_list_of_events_is_read_page_after_page(newest: int) -> None:
    stage = Stage(*[pages(3, newest)] * 4)
    with stage.client:
        listed = stage.client.events.list(type="user.*")
        assert [one.id for one in listed] == [*range(1, newest + 1)]
    assert len(stage.script.requests) == max(1, -(-newest // 3)), "no page is read twice"
    for request in stage.script.requests:
        assert (request.url.params["limit"], request.url.params["type"]) == ("100", "user.*")


@pytest.mark.parametrize("filters", [EventFilters(), EventFilters(after=7)])
def test_a_list_of_events_that_does_not_go_on_is_not_read_for_ever(filters: EventFilters) -> None:
    pagination = {"limit": 100, "has_more": True, "last_id": filters.get("after", 0)}
    stage = Stage(answer(200, {"data": [], "pagination": pagination}))
    with pytest.raises(UnexpectedAnswer):
        list(stage.client.events.list(**filters))


class Held(httpx.AsyncBaseTransport):
    """Holds calls until they may go on; streams are never answered."""

    def __init__(self) -> None:
        self.waiting = self.most = 0
        self.go = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/stream"):
            await asyncio.get_running_loop().create_future()
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.go.wait()
        finally:
            self.waiting -= 1
        return httpx.Response(200, json={"data": ANYBODY})


async def test_streams_take_no_calls_place_and_a_cancelled_call_gives_its_own_back() -> None:
    held = Held()
    async with AsyncClient(KEY, base_url=PLACE, transport=held) as client:
        streams = [asyncio.ensure_future(anext(client.events.stream())) for _ in range(AT_ONCE)]
        calls = [asyncio.ensure_future(client.me()) for _ in range(2 * AT_ONCE)]
        await eventually(lambda: held.waiting == AT_ONCE, "the calls")
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        held.go.set()
        assert (await client.me()).id == ANYBODY["id"]
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    assert held.most == AT_ONCE
