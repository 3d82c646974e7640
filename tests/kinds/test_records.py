"""The endpoints of a kind that one file declares."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from driving import Api, Caller, InProcess, refused
from portico_client import AsyncClient, PreconditionFailed


async def product(caller: Caller, stock: int = 10) -> int:
    """A product with so many pieces in stock."""
    values = {"name": "Lamp", "category": "lighting", "price": 24.5, "stock_quantity": stock}
    made = await caller.post("/products", json=values)
    number: int = made.json()["data"]["id"]
    return number


def order(product_id: int, number: str = "2026-0001", **values: Any) -> dict[str, Any]:
    """The body of an order."""
    return {"number": number, "product_id": product_id, "total": 49.0, **values}


async def test_a_record_is_created_read_changed_listed_and_deleted(api: Api) -> None:
    caller = await api.caller()
    lamp = await product(caller)
    made = await caller.post("/orders", json=order(lamp, quantity=2))
    assert made.status_code == 201, made.text
    assert made.headers["location"].endswith("/v1/orders/1")
    data = made.json()["data"]
    assert data == {
        "id": 1, "number": "2026-0001", "product_id": lamp, "quantity": 2, "total": 49,
        "currency": "USD", "note": "", "status": "open",
        "created_at": data["created_at"], "updated_at": data["created_at"],
    }  # fmt: skip
    read = await caller.get("/orders/1")
    assert read.json() == {"data": data}
    assert read.headers["etag"] == made.headers["etag"]
    changed = await caller.patch("/orders/1", json={"status": "paid", "note": "thanks"})
    assert changed.json()["data"] | {"updated_at": ""} == data | {
        "status": "paid", "note": "thanks", "updated_at": ""
    }  # fmt: skip
    assert refused(await caller.patch("/orders/1", json={"status": "open"}), 422) == {
        "status": "cannot change from paid to open"
    }
    listed = await caller.get("/orders")
    assert [one["id"] for one in listed.json()["data"]] == [1]
    assert listed.json()["pagination"]["total_items"] == 1
    assert (await caller.delete("/orders/1")).status_code == 204
    refused(await caller.get("/orders/1"), 404)
    assert (await caller.get("/orders")).json()["pagination"]["total_items"] == 0
    events = (await caller.get("/events?type=order.*")).json()["data"]
    assert [event["type"] for event in events] == [
        "order.created", "order.updated", "order.deleted"
    ]  # fmt: skip
    assert events[1]["previous"] == {"note": "", "status": "open"}


async def test_a_unique_value_is_taken_once(api: Api) -> None:
    caller = await api.caller()
    lamp = await product(caller)
    assert (await caller.post("/orders", json=order(lamp))).status_code == 201
    answer = await caller.post("/orders", json=order(lamp, " 2026-0001 "))
    assert refused(answer, 409, "DUPLICATE_RESOURCE") == {"number": "is taken"}


@pytest.mark.one_engine
async def test_scopes_of_the_kind_close_it(api: Api) -> None:
    viewer, editor = await api.caller("viewer"), await api.caller("editor")
    lamp = await product(await api.caller())
    refused(await viewer.post("/orders", json=order(lamp)), 403)
    assert (await editor.post("/orders", json=order(lamp))).status_code == 201
    assert (await viewer.get("/orders")).status_code == 200
    keys = await editor.post(
        "/api-keys", json={"name": "n", "type": "live", "scopes": ["read:orders"]}
    )
    assert keys.json()["data"]["scopes"] == ["read:orders"]


@pytest.mark.one_engine
async def test_the_sandbox_has_its_own(api: Api) -> None:
    caller = await api.caller()
    await caller.post("/orders", json=order(await product(caller)))
    test = await api.caller(key_type="test")
    assert (await test.get("/orders")).json()["data"] == []


async def test_orders_at_once_are_numbered_once(api: Api) -> None:
    caller = await api.caller()
    lamp = await product(caller)
    answers = await asyncio.gather(
        *(caller.post("/orders", json=order(lamp, "same")) for _ in range(10))
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 9


@pytest.mark.one_engine
async def test_the_document_describes_the_kind(api: Api) -> None:
    document = (await (await api.caller()).get("/openapi.json")).json()
    assert {"/orders", "/orders/{id}"} <= document["paths"].keys()
    assert {"order.created", "order.updated", "order.deleted"} <= document["webhooks"].keys()
    schemas = document["components"]["schemas"]
    assert schemas["CreateOrder"]["required"] == ["number", "product_id", "total"]
    states = ["open", "paid", "shipped", "cancelled"]
    assert schemas["OrderBody"]["properties"]["status"]["enum"] == states
    assert schemas["OrderBody"]["properties"]["number"]["examples"] == ["2026-0001"]
    weight = schemas["CreateThing"]["properties"]["weight"]
    assert weight["description"].endswith("Default: `1.25`.")
    [code] = [
        flow["scopes"]
        for flow in document["components"]["securitySchemes"]["oauth"]["flows"].values()
    ]
    assert code["write:orders"] == "Create, change and delete orders"


@pytest.mark.one_engine
async def test_the_client_calls_a_kind(api: Api) -> None:
    caller = await api.caller()
    key = caller.headers["authorization"].removeprefix("Bearer ")
    base = api.live.addresses.base
    async with AsyncClient(key, base_url=base, transport=InProcess(api)) as client:
        things = client.kind("things")
        made = await things.create(name="one", price=Decimal("1.5"))
        assert (made["id"], made["price"]) == (1, Decimal("1.5"))
        changed = await things.update(1, if_match=made.etag, name="two")
        assert changed["name"] == "two"
        try:
            await things.update(1, if_match=made.etag, name="three")
        except PreconditionFailed:
            pass
        else:
            raise AssertionError("it has changed meanwhile")
        assert [one["name"] async for one in things.list(search="tw")] == ["two"]
        await things.delete(1)
        assert (await things.list().page(1)).items == ()
