"""Events by type: what the server makes of each is read, and type checkers know its shape.

What is wrong on purpose carries the error that mypy must give; where mypy gives none, it complains
about the comment.
"""

import copy
import pickle
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, assert_never, assert_type

import pytest

from client.scripted import KEY, PLACE, Scripted, answer
from driving import Api, settings_for
from event_examples import examples
from portico.features.events.payloads import event_data
from portico_client import (
    ApiKey,
    AsyncClient,
    Client,
    Event,
    EventType,
    PreviousProduct,
    Product,
    ProductUpdatedEvent,
    UnexpectedAnswer,
    UnknownEvent,
    User,
)

AT = datetime(2026, 3, 15, 12, tzinfo=UTC)
NEWER = {
    "id": 18,
    "type": "order.placed",
    "timestamp": "2026-03-15T12:00:00.000Z",
    "data": {"total": 24.5},
}
"""An event that only a newer server has."""


@pytest.fixture(scope="module")
async def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """An event of every type, as the server makes it."""
    async with Api(settings_for(tmp_path_factory.mktemp("events"), {})) as api:
        return await examples(api)


def listed(*events: Mapping[str, Any]) -> Any:
    """An answer with a page of events."""
    place = {"limit": 25, "has_more": False, "last_id": events[-1]["id"]}
    return answer(200, {"data": [*events], "pagination": place})


def read(*events: Mapping[str, Any]) -> list[Event]:
    """What a client makes of events."""
    script = Scripted(listed(*events))
    with Client(KEY, base_url=PLACE, transport=script) as client:
        return [*client.events.list()]


def test_every_event_of_the_server_has_its_class(made: dict[str, dict[str, Any]]) -> None:
    assert {*typing.get_args(EventType)} == made.keys() == event_data().keys()
    for one, told in zip(read(*made.values()), made.values(), strict=True):
        assert not isinstance(one, UnknownEvent)
        assert (one.id, one.type) == (told["id"], told["type"])
        assert one.previous is None or one.previous.keys() == told["previous"].keys()
        assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)  # noqa: S301 - our own


def test_a_type_or_shape_of_a_newer_server_is_told_and_holds_nothing_up(
    made: dict[str, dict[str, Any]],
) -> None:
    older, newer = read({**NEWER, "id": 17, "type": "ping", "data": {"webhook_id": 1}}, NEWER)
    assert older.type == "ping"
    total = {"total": Decimal("24.5")}
    assert newer == UnknownEvent(18, "unknown", AT, total, None, "order.placed")
    for data in ({}, {"id": 1}, {"created_at": 5}, {"webhook_id": [1]}):
        (one,) = read({**NEWER, "type": "product.created", "data": data})
        assert one == UnknownEvent(18, "unknown", AT, data, None, "product.created")
    updated = made["product.updated"]
    assert read({**updated, "previous": {**updated["previous"], "weight": 3}}) == read(updated)


@pytest.mark.parametrize("wrong", [{"id": "18"}, {"type": 5}, {"data": []}, {"timestamp": "then"}])
def test_what_is_no_event_is_no_answer(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedAnswer):
        read({**NEWER, **wrong})


def test_a_comparison_of_the_type_tells_the_shape(made: dict[str, dict[str, Any]]) -> None:
    (one,) = read(made["product.updated"])
    assert one.type == "product.updated"
    assert_type(one, ProductUpdatedEvent)
    assert_type(one.data, Product)
    assert_type(one.previous, PreviousProduct)
    assert "price" in one.previous
    assert_type(one.previous["price"], Decimal)
    assert one.previous["price"] > one.data.price
    with pytest.raises(AttributeError):
        one.data.email  # type: ignore[attr-defined]  # noqa: B018 - the look-up


def told(one: Event) -> str:
    """What an event is about, whatever its type: mypy says if a type is left out."""
    match one.type:
        case "product.created" | "product.updated" | "product.deleted":
            assert_type(one.data, Product)
            return one.data.name
        case "user.created" | "user.updated" | "user.deleted":
            assert_type(one.data, User)
            return one.data.email
        case "quota.reached":
            return f"{one.data.percent} %"
        case "account.updated":
            return one.data.plan
        case "api_key.created" | "api_key.revoked":
            assert_type(one.data, ApiKey)
            return one.data.hint
        case "api_key.rotated":
            return f"{one.data.previous_key.id} {one.data.hint}"
        case "products.imported":
            return str(one.data.inserted)
        case "sandbox.reset":
            return str(one.data.products)
        case "ping":
            return str(one.data.webhook_id)
        case "unknown":
            assert_type(one, UnknownEvent)
            return one.name
        case _:
            assert_never(one)


async def test_a_program_can_handle_every_type(made: dict[str, dict[str, Any]]) -> None:
    assert all(map(told, read(*made.values())))
    (one,) = read(NEWER)
    assert told(one) == "order.placed"
    with pytest.raises(AttributeError):
        one.data.name  # type: ignore[union-attr]  # noqa: B018 - a type must be chosen first
    assert one.type != "product.creatd"  # type: ignore[comparison-overlap]
    async with AsyncClient(KEY, base_url=PLACE, transport=Scripted(listed(NEWER))) as client:
        async for each in client.events.list():
            assert_type(each, Event)
