"""Creating and changing products on pages: what is typed, and what happens meanwhile."""

from typing import Any

import msgspec
import pytest

from driving import Api
from pages.visiting import Visitor, held, said, signed_in
from portico.core.rules import MAX_METADATA_KEYS
from portico.features.catalogue.rules import MAX_IMAGES, Product
from portico.features.catalogue.storage import Products
from portico.features.events.audit import Audit, AuditFilter

FIELDS = {
    "f-name": "Desk lamp",
    "f-category": "lighting",
    "f-price": "1.234,50",
    "f-currency": "EUR",
    "f-stock_quantity": "12",
    "f-description": "Warm light.\r\nOn an arm.",
    "f-images-1-url": "https://example.com/lamp.jpg",
    "f-images-1-alt": "Lit",
    "f-images-2-url": "",
    "f-images-2-alt": "",
    "f-metadata-1-name": "colour",
    "f-metadata-1-value": "brass",
    "f-metadata-2-name": "",
    "f-metadata-2-value": "",
    "f-metadata-3-name": "empty",
    "f-metadata-3-value": "",
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


async def all_products(api: Api) -> list[Product]:
    return [one async for batch in api.live[Products].batches() for one in batch]


async def new_form(visitor: Visitor, **fields: str) -> dict[str, str]:
    """The fields of a new product, as its page sends them."""
    page = await visitor.get("/products/new")
    assert page.status_code == 200, page.text
    return {**FIELDS, "f-status": "active", "once": held(page, "once"), **fields}


async def edit_form(visitor: Visitor, product: Product, fields: dict[str, str]) -> dict[str, str]:
    """The fields of a product's page, with these changed."""
    page = await visitor.get(f"/products/{product.id}/edit")
    assert page.status_code == 200, page.text
    return {**FIELDS, "version": held(page, "version"), **fields}


async def test_product_form_stores_values_as_people_write_them(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    answer = await editor.post("/products/new", **await new_form(editor))
    (product,) = await all_products(api)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/dashboard/products/{product.id}?done=product-created"
    assert {name: getattr(product, name) for name in STORED} == STORED
    assert product.status == "active"
    (entry, *_) = await api.live[Audit].page(AuditFilter(users=frozenset({user.id})), limit=1)
    assert (entry.action, entry.credential) == ("product.created", "session")


async def test_product_of_the_largest_size_is_changed_on_a_page(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    images = [
        {"url": f"https://e.test/{'a' * 2000}{n}", "alt": "é" * 500} for n in range(MAX_IMAGES)
    ]
    metadata = {f"{n:0100}": "日" * 1_000 for n in range(MAX_METADATA_KEYS)}
    product = await api.product(
        images=msgspec.json.encode(images).decode(), metadata=msgspec.json.encode(metadata).decode()
    )
    form = await edit_form(editor, product, {"f-description": "d" * 10_000})
    form |= {f"f-images-{n}-{part}": one[part] for n, one in enumerate(images, 1) for part in one}
    for number, (name, value) in enumerate(metadata.items(), 1):
        form |= {f"f-metadata-{number}-name": name, f"f-metadata-{number}-value": value}
    answer = await editor.post(f"/products/{product.id}/edit", **form)
    assert answer.status_code == 303, answer.text
    stored = await api.live[Products].get(product.id)
    assert stored is not None
    assert msgspec.json.decode(stored.images) == images
    assert msgspec.json.decode(stored.metadata) == metadata
    assert stored.name == "Desk lamp"


async def test_product_archived_while_it_is_edited_stays_archived(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    product = await api.product(**STORED)
    form = await edit_form(editor, product, {"f-name": "Floor lamp", "f-price": "20"})
    caller = await api.caller("editor")
    changed = {"name": "Wall lamp", "status": "archived"}
    assert (await caller.patch(f"/products/{product.id}", json=changed)).status_code == 200
    async with api.unchanged():
        answer = await editor.post(f"/products/{product.id}/edit", **form)
        added = await editor.post(f"/products/{product.id}/edit", **form, add="f-images")
    assert held(added, "version") == form["version"]
    assert answer.status_code == 412
    assert "It is archived now" in answer.text
    on_top = {**form, "version": held(answer, "version")}
    assert (await editor.post(f"/products/{product.id}/edit", **on_top)).status_code == 303
    stored = await api.live[Products].get(product.id)
    assert stored is not None
    assert (stored.name, stored.status) == ("Floor lamp", "archived")


@pytest.mark.parametrize(
    ("fields", "status"),
    [({}, 404), ({"f-price": "cheap"}, 422), ({"add": "f-images"}, 404)],
    ids=str,
)
async def test_product_deleted_while_it_is_edited_can_be_made_anew(
    api: Api, fields: dict[str, Any], status: int
) -> None:
    _, editor = await signed_in(api, "editor")
    product = await api.product(**STORED)
    form = await edit_form(editor, product, {"f-name": "Floor lamp", **fields})
    caller = await api.caller("editor")
    await caller.delete(f"/products/{product.id}")
    answer = await editor.post(f"/products/{product.id}/edit", **form)
    assert answer.status_code == status
    assert "deleted while you were editing it" in said(answer)
    assert "<title>Error: New product" in answer.text
    assert held(answer, "f-name") == "Floor lamp"
    assert 'action="/dashboard/products/new"' in answer.text
    anew = {**form, "f-price": "2", "f-status": "draft", "once": held(answer, "once"), "add": ""}
    assert (await editor.post("/products/new", **anew)).status_code == 303
    assert [one.name for one in await all_products(api)] == ["Floor lamp"]
