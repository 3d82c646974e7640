"""Events as a stream: what is told, from where on, to whom, how many at once, and until when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from busy_machine import within
from driving import Api, Caller, refused
from event_streams import A_SECOND, streaming
from operating import eventually
from portico.app import Portico
from portico.features.events.feed import LEASE_SECONDS, MOST_STREAMS
from portico.features.events.storage import Events
from portico.server import Server
from signing_in import COOKIE, PASSWORD, cookie_of

LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 12.5}


async def make(caller: Caller, *names: str) -> list[int]:
    """New products, by their names; the ids of their events."""
    for name in names:
        assert (await caller.post("/products", json=LAMP | {"name": name})).status_code == 201
    events = (await caller.get("/events", params={"limit": 100})).json()["data"]
    return [event["id"] for event in events if event["data"].get("name") in names]


async def test_a_stream_sends_events_as_the_list_shows_them(api: Api) -> None:
    editor = await api.caller("editor")
    await make(editor, "before")
    async with streaming(editor) as stream:
        assert stream.answer.headers["content-type"] == "text/event-stream"
        assert stream.answer.headers["cache-control"] == "no-store"
        assert "etag" not in stream.answer.headers
        (made,) = await make(editor, "now")
        event = await stream.event()
        listed = (await editor.get("/events", params={"after": made - 1})).json()["data"]
        assert [event] == listed
        changed = await editor.patch(f"/products/{event['data']['id']}", json={"price": 13})
        assert changed.status_code == 200
        assert (await stream.event())["previous"] == {"price": 12.5}


async def test_a_stream_resumes_after_last_event_id_or_after(api: Api) -> None:
    editor = await api.caller("editor")
    first, second, third = await make(editor, "one", "two", "three")
    for last, query, expected in (
        (None, {"after": 0}, [first, second, third]),
        (None, {"after": first}, [second, third]),
        (str(second), {"after": 0}, [third]),
        ("0", {"after": second}, [first, second, third]),
    ):
        async with streaming(editor, last, **query) as stream:
            assert [(await stream.event())["id"] for _ in expected] == expected
    async with streaming(editor) as stream:
        assert stream.position == third
    (missed,) = await make(editor, "missed")
    async with streaming(editor, str(stream.position)) as stream:
        assert (await stream.event())["id"] == missed


@pytest.mark.one_engine
async def test_a_stream_sends_requested_and_permitted_types_only(api: Api) -> None:
    admin = await api.caller("admin")
    viewer = await api.caller("viewer")
    async with streaming(viewer) as own, streaming(admin, type="product.deleted,user.*") as some:
        (made,) = await make(admin, "Lamp")
        product = (await admin.get("/events", params={"after": made - 1})).json()["data"][0]
        await admin.post("/api-keys/rotate")
        await admin.delete(f"/products/{product['data']['id']}")
        assert [(await own.event())["type"] for _ in range(2)] == [
            "product.created",
            "product.deleted",
        ]
        assert (await some.event())["type"] == "product.deleted"
    for query in ({"type": "api_key.created"}, {"type": "api_key.*,product.*"}):
        answer = await viewer.get("/events/stream", params=query)
        refused(answer, 403, "PERMISSION_DENIED")


@pytest.mark.one_engine
async def test_a_malformed_request_of_a_stream_is_refused(api: Api) -> None:
    admin = await api.caller("admin")
    for field, value in (("after", "-1"), ("type", "product.sold"), ("limit", "5")):
        answer = await admin.get("/events/stream", params={field: value})
        assert refused(answer, 400, "VALIDATION_ERROR").keys() == {field}
    for value in ("one", "-1", str(2**63)):
        answer = await admin.get("/events/stream", headers={"last-event-id": value})
        assert refused(answer, 400, "VALIDATION_ERROR").keys() == {"Last-Event-ID"}
    answer = await admin.get("/events/stream", headers={"accept": "application/json"})
    refused(answer, 406, "NOT_ACCEPTABLE")
    refused(await api.stranger().get("/events/stream"), 401, "AUTHENTICATION_REQUIRED")
    for accept in ("text/event-stream", "text/*", "text/html, text/event-stream;q=0.5"):
        admin.headers["accept"] = accept
        async with streaming(admin):
            pass


@pytest.mark.one_engine
async def test_a_stream_from_a_forgotten_event_is_410(api: Api) -> None:
    editor = await api.caller("editor")
    first, second = await make(editor, "one", "two")
    async with api.live.db.transaction() as tx:
        await api.live[Events].forget(tx, api.clock() + 1)
    refused(await editor.get("/events/stream", headers={"last-event-id": str(first)}), 410, "GONE")
    refused(await editor.get("/events/stream", params={"after": first}), 410, "GONE")
    async with streaming(editor, str(second)), streaming(editor, "0"), streaming(editor):
        pass


# How many at once


async def test_an_account_has_ten_streams_at_most_and_each_counts_as_a_request(api: Api) -> None:
    one = await api.caller("editor", plan="free")
    other = await api.caller("editor", user=one.user)
    somebody = await api.caller("editor")
    async with AsyncExitStack() as stack:
        for number in range(MOST_STREAMS - 1):
            await stack.enter_async_context(streaming((one, other)[number % 2]))
        async with streaming(one):
            for left, caller in ((19, one), (18, other)):
                answer = await caller.get("/events/stream")
                refused(answer, 429, "RATE_LIMITED")
                assert answer.headers["x-ratelimit-remaining"] == str(left)
                assert 1 <= int(answer.headers["retry-after"]) <= LEASE_SECONDS
            async with streaming(somebody):
                pass

        async def is_let_in() -> bool:
            api.clock.advance(seconds=60)  # to another minute of requests
            return (await other.head("/events/stream")).status_code == 200

        with within(A_SECOND):
            await eventually(is_let_in, "the end of the one that was closed")


@asynccontextmanager
async def another(api: Api) -> AsyncIterator[Api]:
    """Another process on the same stores."""
    other = api.beside()
    other.portico = Portico(api.settings, clock=api.clock)
    await other.portico.open()
    server = Server(other.portico)
    await server.start()
    other.application = server.pipeline
    yield other
    await server.stop()
    await other.portico.close()


async def test_the_bound_holds_over_all_processes_and_a_dead_one_frees_its_places(
    api: Api,
) -> None:
    here = await api.caller("editor")
    async with another(api) as other, AsyncExitStack() as stack:
        there = Caller(other, here.user, here.record, here.key, "live")
        stack.push_async_callback(there.aclose)
        streams = [
            await stack.enter_async_context(streaming((here, there)[number % 2]))
            for number in range(MOST_STREAMS)
        ]
        (made,) = await make(there, "Lamp")
        assert (await streams[0].event())["id"] == made
        for caller in (here, there):
            refused(await caller.get("/events/stream"), 429, "RATE_LIMITED")
        # As of a process that was killed: it renews its places no more.
        holders = await api.live.db.all("SELECT DISTINCT holder FROM leases ORDER BY holder")
        assert len(holders) == 2
        async with api.live.db.transaction() as tx:
            sql = "UPDATE leases SET holder = 'killed' WHERE holder = :holder"
            await tx.run(sql, {"holder": holders[0][0]})
        api.clock.advance(seconds=LEASE_SECONDS - 1)
        refused(await here.get("/events/stream"), 429, "RATE_LIMITED")
        living = "SELECT count(*), min(until) FROM leases WHERE holder <> 'killed'"

        async def is_renewed() -> bool:
            until = api.clock() + LEASE_SECONDS * 1_000
            return await api.live.db.one(living) == (MOST_STREAMS // 2, until)

        await eventually(is_renewed, "the renewal")
        api.clock.advance(seconds=1)
        async with streaming(here):
            pass


# Until when


@pytest.mark.one_engine
async def test_a_stream_does_not_keep_its_session_from_ending(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    client = api.stranger()
    session = await client.post("/sessions", json={"email": user.email, "password": PASSWORD})
    client.headers["cookie"] = f"{COOKIE}={cookie_of(session)}"
    editor = await api.caller("editor")
    async with streaming(client) as stream:
        api.clock.advance(seconds=1_799)
        await asyncio.sleep(A_SECOND)  # in which it must not end
        (made,) = await make(editor, "Lamp")
        assert (await stream.event())["id"] == made
        api.clock.advance(seconds=1)
        await stream.end()
    refused(await client.get("/users/me"), 401, "AUTHENTICATION_REQUIRED")
    sandbox = await api.caller("editor", "test", user=editor.user)
    async with streaming(sandbox) as stream:
        await make(editor, "live")
        (made,) = await make(sandbox, "sandbox")
        assert (await stream.event())["id"] == made
