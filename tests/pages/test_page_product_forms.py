"""Creating and changing products on pages: what is typed, and what happens meanwhile."""

import asyncio
import re
from html import unescape
from typing import Any

import httpx
import msgspec
import pytest

from driving import Api
from pages.visiting import Visitor, faults, said, signed_in
from portico.domain.products import MAX_IMAGES, MAX_METADATA_KEYS, Product
from portico.storage.audit import AuditFilter

pytestmark = pytest.mark.one_engine

FIELDS = {
    "name": "Desk lamp",
    "category": "lighting",
    "price": "1.234,50",
    "currency": "EUR",
    "stock_quantity": "12",
    "description": "Warm light.\r\nOn an arm.",
    "image_1_url": "https://example.com/lamp.jpg",
    "image_1_alt": "Lit",
    "image_2_url": "",
    "image_2_alt": "",
    "metadata_1_name": "colour",
    "metadata_1_value": "brass",
    "metadata_2_name": "",
    "metadata_2_value": "",
    "metadata_3_name": "empty",
    "metadata_3_value": "",
}
STORED: dict[str, Any] = {
    "name": "Desk lamp",
    "category": "lighting",
    "price": 12_345_000,
    "currency": "EUR",
    "stock_quantity": 12,
    "description": "Warm light.\nOn an arm.",
    "images": '[{"url":"https://example.com/lamp.jpg","alt":"Lit"}]',
    "metadata": '{"colour":"brass","empty":""}',
}


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    return each_database


def held(answer: httpx.Response, name: str) -> str:
    """What a field of a page holds."""
    found = re.search(rf'name="{name}"[^>]* value="([^"]*)"', answer.text)
    assert found, f"{name} in {answer.text}"
    return unescape(found[1])


async def all_products(api: Api) -> list[Product]:
    return [one async for batch in api.live.products.batches() for one in batch]


async def new_form(visitor: Visitor, **fields: str) -> dict[str, str]:
    """The fields of a new product, as its page sends them."""
    page = await visitor.get("/products/new")
    assert page.status_code == 200, page.text
    return {**FIELDS, "status": "active", "once": held(page, "once"), **fields}


async def edit_form(visitor: Visitor, product: Product, **fields: str) -> dict[str, str]:
    """The fields of a product's page, with these changed."""
    page = await visitor.get(f"/products/{product.id}/edit")
    assert page.status_code == 200, page.text
    return {**FIELDS, "version": held(page, "version"), **fields}


async def test_an_editor_creates_a_product_as_people_write_it(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    answer = await editor.post("/products/new", **await new_form(editor))
    (product,) = await all_products(api)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/dashboard/products/{product.id}?done=product-created"
    assert {name: getattr(product, name) for name in STORED} == STORED
    assert product.status == "active"
    (entry, *_) = await api.live.audit.page(AuditFilter(users=frozenset({user.id})), limit=1)
    assert (entry.action, entry.credential) == ("product.created", "session")


async def test_a_form_sent_twice_makes_one_product_and_leads_to_it_both_times(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    form = await new_form(editor)
    first, *others = await asyncio.gather(*(editor.post("/products/new", **form) for _ in range(4)))
    others.append(await editor.post("/products/new", **form))
    (product,) = await all_products(api)
    assert first.headers["location"].startswith(f"/dashboard/products/{product.id}?")
    for answer in others:
        assert (answer.status_code, answer.headers["location"]) == (303, first.headers["location"])
    await editor.post("/products/new", **form | {"name": "Another lamp"})
    await editor.post("/products/new", **await new_form(editor))
    assert len(await all_products(api)) == 3


async def test_a_product_of_the_sandbox_is_made_once_and_there_alone(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    assert await api.sandbox.users.by_account(user.id) is None
    before = await api.sandbox.products.categories(1_000)
    page = await editor.get("/sandbox/products/new")
    form = {**FIELDS, "category": "of mine", "status": "draft", "once": held(page, "once")}
    first, *others = await asyncio.gather(
        *(editor.post("/sandbox/products/new", **form) for _ in range(4))
    )
    others.append(await editor.post("/sandbox/products/new", **form))
    assert first.headers["location"].startswith("/dashboard/sandbox/products/")
    for made in others:
        assert (made.status_code, made.headers["location"]) == (303, first.headers["location"])
    assert await all_products(api) == []
    assert await api.sandbox.products.categories(1_000) == sorted([*before, "of mine"])
    mirror = await api.sandbox.users.by_account(user.id)
    assert mirror is not None
    assert (mirror.email, mirror.role) == (user.email, "editor")
    entry, *_ = await api.sandbox.audit.page(limit=9)
    assert (entry.action, entry.user_id) == ("product.created", mirror.id)


async def test_what_is_wrong_is_told_beside_its_field_and_nothing_is_lost(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    form = await new_form(
        editor,
        name=" ",
        price="1,234",
        currency="XXQ",
        stock_quantity="-1",
        status="gone",
        image_1_url="javascript:alert(1)",
        image_2_alt="Without an address",
        metadata_2_value="Without a name",
        metadata_3_name="colour",
    )
    form["category"] = ""
    async with api.unchanged():
        answer = await editor.post("/products/new", **form)
    assert answer.status_code == 422
    told = faults(answer)
    assert told.keys() == {
        "name", "category", "price", "currency", "stock_quantity", "status", "image_1_url",
        "image_2_url", "metadata_2_name", "metadata_3_name",
    }  # fmt: skip
    assert "1234 or 1.2340" in told["price"]
    assert told["stock_quantity"] == "Must be from 0 to 2147483647."
    assert "Is used twice" in told["metadata_3_name"]
    for name in ("price", "image_1_url", "image_2_alt", "metadata_2_value", "once"):
        assert held(answer, name) == form[name]
    assert "Warm light.\nOn an arm.</textarea>" in answer.text


async def test_rows_are_added_without_saving_and_without_a_script(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    form = await new_form(editor)
    async with api.unchanged():
        answer = await editor.post("/products/new", **form, add="image")
    assert answer.status_code == 200
    assert faults(answer) == {}
    assert held(answer, "image_3_url") == ""
    assert 'name="image_4_url"' not in answer.text
    assert 'name="metadata_4_name"' not in answer.text
    assert held(answer, "image_1_url") == form["image_1_url"]
    assert held(answer, "once") == form["once"]
    assert len(re.findall("autofocus", answer.text)) == 1
    answer = await editor.post("/products/new", **form, add="metadata")
    assert held(answer, "metadata_4_name") == ""


async def test_a_product_with_all_that_it_may_have_is_changed_on_a_page(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    images = [
        {"url": f"https://e.test/{'a' * 2000}{n}", "alt": "é" * 500} for n in range(MAX_IMAGES)
    ]
    metadata = {f"{n:0100}": "日" * 1_000 for n in range(MAX_METADATA_KEYS)}
    product = await api.product(
        images=msgspec.json.encode(images).decode(), metadata=msgspec.json.encode(metadata).decode()
    )
    form = await edit_form(editor, product, description="d" * 10_000)
    form |= {f"image_{n}_{part}": one[part] for n, one in enumerate(images, 1) for part in one}
    for number, (name, value) in enumerate(metadata.items(), 1):
        form |= {f"metadata_{number}_name": name, f"metadata_{number}_value": value}
    answer = await editor.post(f"/products/{product.id}/edit", **form)
    assert answer.status_code == 303, answer.text
    stored = await api.live.products.get(product.id)
    assert stored is not None
    assert msgspec.json.decode(stored.images) == images
    assert msgspec.json.decode(stored.metadata) == metadata
    assert stored.name == "Desk lamp"


async def test_a_form_that_changes_nothing_changes_nothing(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    product = await api.product(**{**STORED, "name": "Desk\nlamp", "metadata": '{"a\\nb":"c\\nd"}'})
    page = await editor.get(f"/products/{product.id}/edit")
    for field in ("name", "metadata_1_name", "metadata_1_value"):
        assert re.search(rf'<textarea id="{field}"', page.text), "its lines are kept"
    form = await edit_form(
        editor,
        product,
        name="Desk\r\nlamp",
        price=held(page, "price"),
        metadata_1_name="a\r\nb",
        metadata_1_value="c\r\nd",
        metadata_3_name="",
    )
    async with api.unchanged():
        answer = await editor.post(f"/products/{product.id}/edit", **form)
    assert answer.status_code == 303
    assert "done=nothing-changed" in answer.headers["location"]
    other = {**form, "metadata_1_value": "c\r\ne"}
    answer = await editor.post(f"/products/{product.id}/edit", **other)
    assert "done=product-changed" in answer.headers["location"]


async def test_a_change_made_meanwhile_is_shown_beside_ones_own_and_saved_on_top(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    product = await api.product(**STORED)
    form = await edit_form(editor, product, name="Floor lamp", price="20")
    caller = await api.caller("editor")
    changed = {"name": "Wall lamp", "stock_quantity": 3, "status": "archived"}
    assert (await caller.patch(f"/products/{product.id}", json=changed)).status_code == 200
    async with api.unchanged():
        answer = await editor.post(f"/products/{product.id}/edit", **form)
    assert answer.status_code == 412
    assert "changed while you were editing it" in answer.text
    rows = re.findall(
        r'<tr><th scope="row">(.*?)</th>.*?<span class="written">(.*?)</span>'
        r'.*?<span class="written">(.*?)</span>',
        answer.text,
    )
    assert rows == [
        ("Name", "Wall lamp", "Floor lamp"),
        ("Price", "1,234.50 EUR", "20.00 EUR"),
        ("Stock", "3", "12"),
    ]
    assert "It is archived now" in answer.text
    assert held(answer, "name") == "Floor lamp"
    on_top = {**form, "version": held(answer, "version")}
    assert (await editor.post(f"/products/{product.id}/edit", **on_top)).status_code == 303
    stored = await api.live.products.get(product.id)
    assert stored is not None
    assert (stored.name, stored.stock_quantity, stored.status) == ("Floor lamp", 12, "archived")


async def test_a_refused_form_keeps_the_version_that_it_began_with(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    product = await api.product(**STORED)
    form = await edit_form(editor, product)
    caller = await api.caller("editor")
    await caller.patch(f"/products/{product.id}", json={"stock_quantity": 3})
    for fields in ({"price": "cheap"}, {"add": "image"}):
        answer = await editor.post(f"/products/{product.id}/edit", **form | fields)
        assert held(answer, "version") == form["version"]


@pytest.mark.parametrize(
    ("fields", "status"), [({}, 404), ({"price": "cheap"}, 422), ({"add": "image"}, 404)], ids=str
)
async def test_a_product_deleted_meanwhile_is_told_and_what_was_typed_can_be_made_anew(
    api: Api, fields: dict[str, Any], status: int
) -> None:
    _, editor = await signed_in(api, "editor")
    product = await api.product(**STORED)
    form = await edit_form(editor, product, name="Floor lamp", **fields)
    caller = await api.caller("editor")
    await caller.delete(f"/products/{product.id}")
    answer = await editor.post(f"/products/{product.id}/edit", **form)
    assert answer.status_code == status
    assert "deleted while you were editing it" in said(answer)
    assert "<title>Error: New product" in answer.text
    assert held(answer, "name") == "Floor lamp"
    assert 'action="/dashboard/products/new"' in answer.text
    anew = {**form, "price": "2", "status": "draft", "once": held(answer, "once"), "add": ""}
    assert (await editor.post("/products/new", **anew)).status_code == 303
    assert [one.name for one in await all_products(api)] == ["Floor lamp"]
