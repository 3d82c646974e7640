"""Lists read by the cursor of each next page (decisions §15, RFC 8288)."""

import re
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driving import EXAMPLES, Api, Caller, InProcess, refused

NEXT = re.compile(r'<([^>]+)>; rel="next"')


def next_of(answer: httpx.Response) -> str | None:
    """The address of the next page."""
    assert answer.status_code == 200, answer.text
    link = answer.headers.get("link")
    if link is None:
        return None
    found = NEXT.fullmatch(link)
    assert found is not None, link
    return found[1]


async def walked(caller: Caller, address: str) -> list[int]:
    """The ids of all of a list, by the addresses that its pages give; sees what they say of it."""
    seen: list[int] = []
    page, following = 0, address
    while following:
        answer = await caller.get(following)
        page, body = page + 1, answer.json()
        seen += ids(body)
        told = body["pagination"]
        assert set(told) == {"page", "limit", "total_items", "total_pages"}
        assert told["page"] == page
        following = next_of(answer) or ""
        assert bool(following) == (len(seen) < told["total_items"])
        assert len(body["data"]) == told["limit"] or not following
    assert len(seen) == told["total_items"]
    return seen


def ids(body: Any) -> list[int]:
    return [item["id"] for item in body["data"]]


LISTS = (
    "/products?limit=2",
    "/products?limit=1&status=draft",
    "/products?limit=2&category=light&in_stock=false",
    "/products?limit=2&search=oak+la",
    "/products?limit=1&search=oak%20la&min_price=1&category=light",
    *(f"/users?limit=2&sort={sort}&order={order}" for sort in ("name", "email", "created_at")
      for order in ("asc", "desc")),
    "/users?limit=1&role=viewer",
    "/api-keys?limit=1",
)  # fmt: skip
NAMES = ("Oak lamp", "Lamp of oak", "Oak", "Lamps oak", "A lamp")


@pytest.mark.parametrize("address", LISTS)
async def test_what_the_links_lead_through_is_what_the_pages_show(api: Api, address: str) -> None:
    admin = await api.caller("admin")
    for number in range(7):
        status = "draft" if number % 3 == 0 else "active"
        await api.product(name=NAMES[number % 5], description="oak lamp", status=status)
        await api.account(name=("Ada", "ada", "Grace", "Ödön")[number % 4])
        if address.startswith("/api-keys"):
            await admin.post("/api-keys", json={"type": "live", "name": f"key {number}"})

    whole = ids((await admin.get(re.sub(r"limit=\d", "limit=100", address))).json())

    assert len(whole) > 1
    assert await walked(admin, address) == whole


@settings(EXAMPLES, max_examples=25)
@given(data=st.data())
async def test_who_walks_while_others_write_sees_each_row_that_stays_once(
    api: Api, data: st.DataObject
) -> None:
    admin = await api.caller("admin")
    there = {(await api.product(name="Oak", category=f"c{api.clock.now}")).id for _ in range(6)}
    category = f"c{api.clock.now}"
    api.clock.advance(milliseconds=1)
    words = data.draw(st.sampled_from(["", "&search=oak"]))
    following: str | None = f"/products?category={category}&limit=2{words}"
    seen: list[int] = []
    while following:
        answer = await admin.get(following)
        seen += ids(answer.json())
        if gone := data.draw(st.sampled_from([0, *sorted(there)])):
            assert (await admin.delete(f"/products/{gone}")).status_code == 204
            there.remove(gone)
        if data.draw(st.booleans()):
            await api.product(name="Oak", category=category)
        following = next_of(answer)
    assert len(seen) == len({*seen})
    assert there <= {*seen}


async def test_the_last_page_leads_nowhere_also_where_it_is_full(api: Api) -> None:
    admin = await api.caller("admin")
    for _ in range(4):
        await api.product(name="Oak", category="light")
    for filters in ("", "&status=active", "&category=light", "&search=oak"):
        for query in ("limit=4", "limit=2&page=2"):
            answer = await admin.get(f"/products?{query}{filters}")
            assert answer.json()["pagination"]["total_items"] == 4
            assert next_of(answer) is None


async def test_a_page_of_deliveries_leads_to_the_next(api: Api) -> None:
    admin = await api.caller("admin")
    hook = {"url": "https://hooks.example.com/in", "types": ["*"]}
    made = (await admin.post("/webhooks", json=hook)).json()["data"]
    async with api.live.db.transaction() as tx:
        for _ in range(3):
            await tx.run(
                "INSERT INTO deliveries (webhook_id, event_id, type, status, attempts, created_at)"
                " VALUES (:hook, 1, 'ping', 'delivered', 1, 1)",
                {"hook": made["id"]},
            )
    path = f"/webhooks/{made['id']}/deliveries"

    whole = ids((await admin.get(path)).json())

    assert len(whole) == 3
    assert await walked(admin, f"{path}?limit=2") == whole


async def test_a_page_of_events_leads_to_the_next(api: Api) -> None:
    admin = await api.caller("admin")
    for number in range(5):
        body = {"name": f"Lamp {number}", "category": "light", "price": 1}
        assert (await admin.post("/products", json=body)).status_code == 201
    address = "/events?type=product.created%2Cuser.*&after=0&limit=2"
    names, following = [], address
    while following:
        answer = await admin.get(following)
        names += [event["data"]["name"] for event in answer.json()["data"]]
        told, following = answer.json()["pagination"], next_of(answer) or ""
        assert bool(following) == told["has_more"]
        if following:
            asked = {"type": "product.created,user.*", "limit": "2", "after": str(told["last_id"])}
            assert dict(httpx.URL(following).params) == asked
            assert following.startswith("https://localhost:8443/v1/events?")
    assert names == [f"Lamp {number}" for number in range(5)]


async def test_the_link_repeats_the_filters_and_is_the_same_each_time(api: Api) -> None:
    admin = await api.caller("admin")
    for _ in range(3):
        await api.product(category="été & more")
    address = "/products?page=1&category=%C3%A9t%C3%A9+%26+more&limit=1&search="
    first = await admin.get(address)
    link = next_of(first)
    assert link is not None
    asked = dict(httpx.URL(link).params)
    assert link.startswith("https://localhost:8443/v1/products?")
    assert asked.pop("cursor")
    assert asked == {"category": "été & more", "limit": "1", "search": ""}
    assert next_of(await admin.get(address)) == link


async def test_a_link_holds_nothing_that_ends_it(api: Api) -> None:
    admin = await api.caller("admin")
    for _ in range(2):
        await api.product(category='<a>"; b')
    target = '/v1/products?limit=1&category=<a>"%3B+b'
    headers = [("authorization", f"Bearer {admin.key}")]
    link = next_of(await InProcess(api).exchange("GET", target, headers))
    assert link is not None
    assert next_of(await admin.get(link)) is None


async def test_an_address_names_nobody(api: Api) -> None:
    admin = await api.caller("admin")
    await api.account(name="Ödön von Horváth", email="odon@example.com")
    lists = [f"/users?limit=1&sort={sort}" for sort in ("name", "email")]
    links = [next_of(await admin.get(address)) for address in lists]
    assert not any("odon" in (link or "") or "b2Rvb" in (link or "") for link in links)


async def test_a_cursor_that_is_none_is_400(api: Api) -> None:
    admin = await api.caller("admin")
    for _ in range(3):
        await api.product(category="light")
    link = next_of(await admin.get("/products?limit=1"))
    assert link is not None
    cursor = httpx.URL(link).params["cursor"]
    other = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    addresses = [
        "/products?cursor=", "/products?cursor=1", "/products?cursor=%F0%9F%92%A1",
        f"/products?cursor={'A' * 3_000}", f"/products?cursor={other}",
        f"/products?cursor={cursor[:-4]}", f"/products?cursor={cursor}%0A%3D",
        f"/products?page=2&cursor={cursor}", f"/products?cursor={cursor}&status=draft",
        f"/users?cursor={cursor}",
    ]  # fmt: skip
    for address in addresses:
        faults = refused(await admin.get(address), 400)
        assert [*faults] == ["cursor"], address
    tester = await api.caller("admin", "test")
    assert "cursor" in refused(await tester.get(f"/products?cursor={cursor}"), 400)
    assert next_of(await admin.get(f"/products?limit=2&cursor={cursor}")) is None
