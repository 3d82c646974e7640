"""Streams of events from a real server, which stops, is killed and ends credentials."""

import asyncio
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from client.conftest import ROOMY
from oauth.authority import Authority
from operating import TIMEOUT_SECONDS, Installation, until
from portico.features.events.endpoints import COMMENT_SECONDS
from portico_client import (
    AsyncClient,
    AuthenticationRequired,
    Client,
    Event,
    Login,
    SessionLogin,
)
from portico_client.streams import EventStream


def lamp(client: Client) -> int:
    """The id of a new product."""
    return client.products.create(name="Lamp", category=secrets.token_hex(6), price=1).id


def made(events: list[Event]) -> list[int]:
    """The ids of the products that events tell of."""
    return [one.data.id for one in events if one.type == "product.created"]


@contextmanager
def gathering(stream: EventStream) -> Iterator[list[Event]]:
    """What a stream tells, as it does, to a thread of its own; it is closed at the end."""
    told: list[Event] = []

    def gather() -> None:
        for event in stream:
            told.append(event)  # noqa: PERF402 - each shows at once

    with stream:
        thread = threading.Thread(target=gather)
        thread.start()
        yield told
    thread.join(COMMENT_SECONDS - 5)  # before anything else would wake it
    assert not thread.is_alive(), "whoever waits finds the end"


def caught_up(told: list[Event], ids: list[int]) -> None:
    """Waits until products have been told of, each once and in order."""
    until(lambda: len(made(told)) >= len(ids), "the events")
    assert made(told) == ids


def test_events_are_told_as_they_happen(client: Client) -> None:
    *_, last = client.events.list()
    with (
        gathering(client.events.stream(after=last.id)) as told,
        gathering(client.events.stream(after=last.id, type="product.deleted")) as deletions,
    ):
        ids = [lamp(client) for _ in range(3)]
        client.products.update(ids[0], price=2)
        client.products.delete(ids[1])
        until(lambda: len(told) == 5 and deletions, "the events")
    assert told == [*client.events.list(after=last.id)]
    assert deletions == told[-1:]


async def test_tasks_follow_what_happens(async_client: AsyncClient) -> None:
    *_, last = [one async for one in async_client.events.list()]
    streams = [async_client.events.stream(after=last.id, type="product.*") for _ in range(3)]
    waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
    product = await async_client.products.create(name="Lamp", category="followed", price=1)
    for event in await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_SECONDS):
        assert (event.type, event.data) == ("product.created", product)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(streams[0]), 0.2)
    ending = asyncio.ensure_future(anext(streams[0], None))
    await asyncio.sleep(0)
    for stream in streams:
        await stream.close()
    assert await asyncio.wait_for(ending, TIMEOUT_SECONDS) is None


@pytest.fixture
def own(tmp_path: Path) -> Authority:
    """A server that is not started yet."""
    (tmp_path / "portico.toml").write_text(ROOMY)
    empty = Installation(tmp_path)
    return Authority(Installation(tmp_path, facts=empty.told("init"), port=empty.port))


def client_of(authority: Authority, **options: Any) -> Client:
    prepared = authority.installation
    return Client(prepared.key, base_url=authority.api, ca=authority.certificate, **options)


def test_restarts_and_kills_of_the_server_lose_no_event(own: Authority) -> None:
    with client_of(own) as client, ExitStack() as services:
        service = services.enter_context(own.installation.serving())
        ids = [lamp(client)]
        with gathering(client.events.stream(after=0)) as told:
            for how in (signal.SIGTERM, signal.SIGKILL):
                caught_up(told, ids)
                ids += [lamp(client) for _ in range(5)]
                service.stop(how)
                service = services.enter_context(own.installation.serving())
                ids.append(lamp(client))
            caught_up(told, ids)
        assert told == [*client.events.list()]


@pytest.mark.parametrize("kind", [Login, SessionLogin])
def test_a_stream_outlives_its_login(
    served: Authority, ca: str, client: Client, kind: type[Login] | type[SessionLogin]
) -> None:
    person = served.person("viewer")
    login = kind(person.email, person.password)
    with Client(auth=login, base_url=served.api, ca=ca) as own:
        *_, last = own.events.list()
        with gathering(own.events.stream(after=last.id, type="product.*")) as told:
            ids = [lamp(client)]
            caught_up(told, ids)
            own.logout()
            ids += [lamp(client) for _ in range(3)]
            caught_up(told, ids)
        assert own.me().id == person.id


def test_a_stream_ends_with_its_key(served: Authority, ca: str, client: Client) -> None:
    person = served.person("viewer")
    key = served.installation.told(
        *("keys", "create", "--owner", person.email, "--type", "live", "--name", "Follower")
    )
    with (
        Client(key["key"], base_url=served.api, ca=ca) as own,
        own.events.stream(type="product.*", after=0) as events,
    ):
        lamp(client)
        next(events)
        served.installation.told("keys", "revoke", str(key["id"]))
        with pytest.raises(AuthenticationRequired):
            list(events)


def test_a_stream_that_broke_before_its_first_event_misses_none(own: Authority) -> None:
    broken, go_on = threading.Event(), threading.Event()

    def sleep(_: float) -> None:
        broken.set()
        assert go_on.wait(TIMEOUT_SECONDS)

    with (
        client_of(own) as client,
        client_of(own, sleep=sleep) as follower,
        ExitStack() as services,
    ):
        service = services.enter_context(own.installation.serving())
        lamp(client)
        with gathering(follower.events.stream(type="product.*")) as told:
            service.stop()
            assert broken.wait(TIMEOUT_SECONDS)
            services.enter_context(own.installation.serving())
            meanwhile = lamp(client)
            go_on.set()
            until(lambda: told, "the event")
        assert made(told) == [meanwhile]
