"""Streams of events from a real server, which stops, is killed and ends credentials."""

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
from operating import Installation, until
from portico.features.events.endpoints import COMMENT_SECONDS
from portico_client import (
    Client,
    Event,
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
