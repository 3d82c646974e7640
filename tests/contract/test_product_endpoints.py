"""GET, POST, PATCH and DELETE of products (specification §2.2, §4.2; decisions §7)."""

import json
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import EXAMPLES, Api, refused

LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 12.5}
STATUSES = ("draft", "active", "archived")
CREATED = "2026-03-15T12:00:00.000Z"


async def test_a_product_starts_as_a_draft_with_the_declared_defaults(api: Api) -> None:
    editor = await api.caller("editor")
    answer = await editor.post("/products", json=LAMP)
    assert answer.status_code == 201
    body = answer.json()
    assert body.keys() == {"data", "message"}
    number = body["data"]["id"]
    assert body["data"] == LAMP | {
        "id": number,
        "description": "",
        "currency": "USD",
        "in_stock": False,
        "stock_quantity": 0,
        "status": "draft",
        "created_at": CREATED,
        "updated_at": CREATED,
        "images": [],
        "metadata": {},
    }
    assert answer.headers["location"] == f"https://localhost:8443/v1/products/{number}"
    assert (await editor.get(answer.headers["location"])).json() == {"data": body["data"]}
    await editor.delete(f"/products/{number}")
    again = (await editor.post("/products", json=LAMP)).json()["data"]["id"]
    assert again > number, "no id is used twice"


async def test_a_product_holds_all_that_was_sent(api: Api) -> None:
    editor = await api.caller("editor")
    sent = {
        "name": "Größe\u2003XL 💡",
        "category": "light",
        "price": 0,
        "description": " line one\nline two\ttab\r\n\n",
        "currency": "EUR",
        "stock_quantity": 2**31 - 1,
        "status": "active",
        "images": [{"url": "https://example.com/a.png"}, {"url": "http://x.de/b", "alt": "B"}],
        "metadata": {"colour": "red", "größe": "", "emoji 💡": 'quote " and \\'},
    }
    answer = await editor.post("/products", json=sent)
    assert answer.status_code == 201, answer.text
    data = (await editor.get(f"/products/{answer.json()['data']['id']}")).json()["data"]
    sent["images"] = [
        {"url": "https://example.com/a.png", "alt": ""},
        {"url": "http://x.de/b", "alt": "B"},
    ]
    assert {name: data[name] for name in sent} == sent
    assert data["in_stock"] is True
    listed = (await editor.get("/products")).json()["data"]
    assert listed == [{k: v for k, v in data.items() if k not in ("images", "metadata")}]


@pytest.mark.one_engine
@EXAMPLES
@given(units=st.integers(0, 10**16 - 1), exponent=st.sampled_from(["", "e0", "E+0"]))
async def test_every_price_comes_back_exactly(api: Api, units: int, exponent: str) -> None:
    editor = await api.caller("editor")
    price = Decimal(units) / 10_000
    body = json.dumps(LAMP | {"price": None}).replace("null", f"{price:f}{exponent}")
    answer = await editor.post(
        "/products", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 201
    read = await editor.get(f"/products/{answer.json()['data']['id']}")
    assert json.loads(read.text, parse_float=Decimal, parse_int=Decimal)["data"]["price"] == price


@pytest.mark.one_engine
async def test_in_stock_follows_the_quantity_and_cannot_be_sent(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    where = f"/products/{product.id}"
    for quantity in (3, 0):
        answer = await editor.patch(where, json={"stock_quantity": quantity})
        assert answer.json()["data"]["in_stock"] is (quantity > 0)
    async with api.unchanged():
        answer = await editor.patch(where, json={"in_stock": True})
        assert refused(answer, 400, "VALIDATION_ERROR").keys() == {"in_stock"}


ALLOWED = {("draft", "active"), ("draft", "archived"), ("active", "archived")}
ALLOWED |= {("archived", "active"), *((same, same) for same in STATUSES)}


@pytest.mark.one_engine
async def test_a_status_changes_only_along_its_states(api: Api) -> None:
    editor = await api.caller("editor")
    for old, new in product(STATUSES, repeat=2):
        path = f"/products/{(await api.product(status=old)).id}"
        if (old, new) in ALLOWED:
            answer = await editor.patch(path, json={"status": new})
            assert answer.json()["data"]["status"] == new
            continue
        async with api.unchanged():
            answer = await editor.patch(path, json={"status": new, "name": "X"})
            assert refused(answer, 422, "VALIDATION_ERROR").keys() == {"status"}


async def test_a_patch_keeps_what_it_leaves_out(api: Api) -> None:
    editor = await api.caller("editor")
    created = await editor.post(
        "/products", json=LAMP | {"metadata": {"a": "1"}, "images": [{"url": "https://a.de"}]}
    )
    where = created.headers["location"]
    api.clock.advance(seconds=1)
    before = created.json()["data"]
    answer = await editor.patch(where, json={"price": 99, "metadata": {"b": "2"}})
    assert answer.json()["data"] == before | {
        "price": 99,
        "metadata": {"b": "2"},
        "updated_at": "2026-03-15T12:00:01.000Z",
    }
    async with api.unchanged():
        for change in ({}, {"price": 99.0}, {"name": " Lamp "}):
            again = await editor.patch(where, json=change)
            assert again.json()["data"] == answer.json()["data"]


async def test_a_deleted_product_is_gone_from_lists_and_search(api: Api) -> None:
    editor = await api.caller("editor")
    kept = await api.product(name="Kept lamp")
    gone = await api.product(name="Gone lamp")
    answer = await editor.delete(f"/products/{gone.id}")
    assert (answer.status_code, answer.content) == (204, b"")
    refused(await editor.get(f"/products/{gone.id}"), 404, "RESOURCE_NOT_FOUND")
    refused(await editor.delete(f"/products/{gone.id}"), 404, "RESOURCE_NOT_FOUND")
    for query in ("", "?search=lamp"):
        found = (await editor.get(f"/products{query}")).json()
        assert [item["id"] for item in found["data"]] == [kept.id]
        assert found["pagination"]["total_items"] == 1
