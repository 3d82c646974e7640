"""What buttons do to one product or to several, and who has them."""

import re
from html import unescape
from urllib.parse import parse_qsl

from driving import Api
from pages.visiting import said, signed_in
from portico.features.catalogue.storage import Products
from portico.features.events.audit import Audit, AuditFilter


async def statuses(api: Api, *ids: int) -> list[str | None]:
    found = [await api.live[Products].get(product_id) for product_id in ids]
    return [product.status if product else None for product in found]


async def test_product_button_changes_the_status_and_can_be_repeated(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    product = await api.product(status="draft")
    for verb, status in (("publish", "active"), ("archive", "archived"), ("activate", "active")):
        page = await editor.get(f"/products/{product.id}")
        assert f'name="do" value="{verb}"' in page.text
        done = await editor.post(f"/products/{product.id}", do=verb)
        assert done.status_code == 303
        assert said(await editor.client.get(f"https://localhost:8443{done.headers['location']}"),
                    "status")  # fmt: skip
        assert await statuses(api, product.id) == [status]
        async with api.unchanged():  # sent twice
            assert (await editor.post(f"/products/{product.id}", do=verb)).status_code == 303


async def test_product_button_of_another_status_is_refused(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    archived, draft = await api.product(status="archived"), await api.product(status="draft")
    async with api.unchanged():
        answer = await editor.post(f"/products/{archived.id}", do="publish")
        assert answer.status_code == 409
        assert said(answer) == "It is archived. Use Activate instead."
        assert (await editor.post(f"/products/{draft.id}", do="activate")).status_code == 409
        assert (await editor.post(f"/products/{draft.id}", do="delete")).status_code == 400
        assert (await editor.post("/products/99", do="archive")).status_code == 404


async def test_bulk_change_audits_and_announces_each_product(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    ids = [(await api.product(status=status)).id for status in ("draft", "active", "active")]
    address = "&".join(f"id={one}" for one in ids)
    listed = "status=draft&page=2"
    query = f"/products/several?do=archive&{address}&list={listed.replace('&', '%26')}"
    asked = await editor.get(query)
    assert "Archive 3 products?" in asked.text
    fields = {
        name: unescape(value)
        for name, value in re.findall(r'name="(do|ids|list)" value="([^"]*)"', asked.text)
    }
    done = await editor.post("/products/several", **fields)
    assert done.status_code == 303
    path, _, sent = done.headers["location"].partition("?")
    assert path == "/dashboard/products"
    told = {"done": "products-archived", "count": "3"}
    assert dict(parse_qsl(sent)) == {"status": "draft", "page": "2", **told}
    assert await statuses(api, *ids) == ["archived"] * 3
    entries = await api.live[Audit].page(
        AuditFilter(users=frozenset({user.id}), action="product.updated"), limit=9
    )
    assert sorted(int(entry.target_id or 0) for entry in entries) == ids
    events = await api.live.db.all("SELECT type FROM events WHERE type = 'product.updated'")
    assert len(events) == 3


async def test_bulk_change_does_the_possible_and_names_the_rest(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    draft = await api.product(name="New <lamp>", status="draft")
    archived = await api.product(name="Old lamp", status="archived")
    ids = f"{draft.id},{archived.id},999"
    answer = await editor.post("/products/several", do="publish", ids=ids)
    assert answer.status_code == 200
    assert "1 of 3 products was published" in answer.text
    assert "New &lt;lamp&gt;" in answer.text
    assert "It is archived. Use Activate instead." in answer.text
    assert "It has been deleted since" in answer.text
    assert await statuses(api, draft.id, archived.id) == ["active", "archived"]
    answer = await editor.post("/products/several", do="delete", ids=ids)
    assert "2 of 3 products were deleted" in answer.text
    assert await statuses(api, draft.id, archived.id) == [None, None]


async def test_list_parameter_leads_to_no_other_page(api: Api) -> None:
    _, editor = await signed_in(api, "editor")
    product = await api.product()
    fields = {"do": "archive", "ids": str(product.id), "list": "done=x&next=//evil\r\nA: b&page=2"}
    done = await editor.post("/products/several", **fields)
    assert done.headers["location"] == "/dashboard/products?page=2&done=products-archived&count=1"
