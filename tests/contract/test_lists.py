"""Pages, links, order and filters of lists (specification §2.3, §4; decisions §7, §15)."""

import asyncio
import re
from collections.abc import Callable
from itertools import count
from typing import Any

import httpx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from driving import EXAMPLES, Api, Caller, refused
from kinds import create
from portico.core.text import case_key
from portico.core.users import User
from portico.features.catalogue.rules import Product
from portico.features.catalogue.storage import Products

one_engine = pytest.mark.one_engine


def next_of(answer: httpx.Response) -> str | None:
    """The address of the next page."""
    assert answer.status_code == 200, answer.text
    found = re.fullmatch(r'<([^>]+)>; rel="next"', answer.headers.get("link", ""))
    assert found or "link" not in answer.headers
    return found and found[1]


def ids(answer: httpx.Response) -> list[int]:
    return [item["id"] for item in answer.json()["data"]]


async def read_pages(caller: Caller, path: str, limit: int, **params: Any) -> list[int]:
    """The ids of all pages by their numbers. Asserts what each page says of the list."""
    seen: list[int] = []
    for page in count(1):
        answer = await caller.get(path, params={"page": page, "limit": limit, **params})
        total = answer.json()["pagination"]["total_items"]
        pages = -(-total // limit)
        told = {"page": page, "limit": limit, "total_items": total, "total_pages": pages}
        assert answer.json()["pagination"] == told
        assert (next_of(answer) is not None) == (page < pages)
        seen += ids(answer)
        if not ids(answer):
            assert (page, len(seen)) == (pages + 1, total)
            break
    return seen


async def read_links(caller: Caller, path: str, **params: Any) -> list[int]:
    """The ids of all pages by their links."""
    answer = await caller.get(path, params=params)
    seen = ids(answer)
    while following := next_of(answer):
        answer = await caller.get(following)
        seen += ids(answer)
    assert len(seen) == answer.json()["pagination"]["total_items"]
    return seen


NAMES = ("Oak lamp", "Lamp of oak", "Oak", "Lamps oak", "A lamp")


async def fill(api: Api, admin: Caller, path: str) -> str:
    """The path of a list with several resources, which others beside do not belong to."""
    if path in ("/products", "/users"):
        for number in range(7):
            status = "draft" if number % 3 == 0 else "active"
            await api.product(name=NAMES[number % 5], description="oak lamp", status=status)
            role = ("viewer", "editor")[number % 2]
            await api.account(role, name=("Ada", "ada", "Grace", "Ödön")[number % 4])
        return path
    kind = "/" + path.split("/")[1]
    hook, *_ = [await create(admin, kind, number) for number in range(4)]
    async with api.live.db.transaction() as tx:
        for _ in range(3 if "{hook}" in path else 0):
            await tx.run(
                "INSERT INTO deliveries (webhook_id, event_id, type, status, attempts, created_at)"
                " VALUES (:hook, 1, 'ping', 'delivered', 1, 1)",
                {"hook": int(hook.rpartition("/")[2])},
            )
    return path.replace("/webhooks/{hook}", hook)


LISTS: list[tuple[str, dict[str, Any]]] = [
    *((path, {}) for path in ("/products", "/api-keys", "/webhooks/{hook}/deliveries")),
    ("/products", {"status": "draft"}),
    ("/products", {"category": "light", "in_stock": "false"}),
    ("/products", {"search": "oak la"}),
    ("/products", {"search": "oak la", "min_price": 1, "category": "light"}),
    *(("/users", {"sort": sort, "order": order}) for sort in ("name", "email", "created_at")
      for order in ("asc", "desc")),
    ("/users", {"role": "viewer"}),
]  # fmt: skip
DIFFERING = {"search", "sort", "category"}
"""What engines order or compare in ways of their own."""
IDS = [f"{path}?{httpx.QueryParams(params)}" for path, params in LISTS]
FAR = (1_000_000_001, 2**53 // 100 + 2, 2**63 // 100 + 1, 2**63 - 1)


@pytest.mark.parametrize(
    ("path", "params"),
    [
        pytest.param(
            *one, marks=() if DIFFERING & one[1].keys() else pytest.mark.one_engine, id=name
        )
        for one, name in zip(LISTS, IDS, strict=True)
    ],
)
async def test_pages_and_links_lead_through_the_same_list(
    api: Api, path: str, params: dict[str, Any]
) -> None:
    admin = await api.caller("admin")
    path = await fill(api, admin, path)
    whole = ids(await admin.get(path, params={"limit": 100, **params}))
    assert 1 < len(whole) < 10
    if not {"search", "sort"} & params.keys():
        assert whole == sorted(whole, reverse=True), "newest first"
    for limit in (1, 2, len(whole)):
        assert await read_pages(admin, path, limit, **params) == whole
        assert await read_links(admin, path, limit=limit, **params) == whole
    for page in FAR:
        answer = await admin.get(path, params={"limit": 100, "page": page, **params})
        assert answer.json() == {
            "data": [],
            "pagination": {
                "page": page, "limit": 100, "total_items": len(whole), "total_pages": 1
            },
        }  # fmt: skip


async def test_a_list_has_25_items_without_their_details(api: Api) -> None:
    caller = await api.caller("viewer")
    users = [await api.account() for _ in range(30)]
    answer = await caller.get("/users")
    assert ids(answer) == [user.id for user in reversed(users)][:25]
    shape = {"id", "name", "email", "role", "created_at", "updated_at"}
    assert answer.json()["data"][0].keys() == shape
    assert (await caller.get("/products")).json() == {
        "data": [],
        "pagination": {"page": 1, "limit": 25, "total_items": 0, "total_pages": 0},
    }


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
USER_NAMES = st.lists(
    st.one_of(TEXT, st.sampled_from(["a", "A", "b", "Ä", "a\u0308", "ß", "SS", "z", "Z", "_"])),
    max_size=12,
)


@settings(EXAMPLES, max_examples=12)
@given(
    names=USER_NAMES,
    limit=st.integers(1, 7),
    sort=st.sampled_from(["name", "email", "created_at"]),
    order=st.sampled_from(["asc", "desc"]),
)
async def test_users_sort_by_folded_code_points_and_then_by_id(
    api: Api, names: list[str], limit: int, sort: str, order: str
) -> None:
    async with api.live.db.transaction() as tx:
        await tx.run("DELETE FROM users")
    caller = await api.caller("viewer")
    users = [caller.user]
    for number, name in enumerate(names):
        api.clock.advance(milliseconds=number % 2)
        users.append(await api.account(name=name, email=f"{name}{len(users) % 3}{number}@x.de"))
    keys: dict[str, Callable[[User], Any]] = {
        "name": lambda user: (case_key(user.name), user.id),
        "email": lambda user: (case_key(user.email), user.id),
        "created_at": lambda user: (user.created_at, user.id),
    }
    expected = [user.id for user in sorted(users, key=keys[sort], reverse=order == "desc")]
    assert await read_pages(caller, "/users", limit, sort=sort, order=order) == expected


PRODUCTS = st.lists(
    st.fixed_dictionaries(
        {
            "category": st.sampled_from(["light", "Light", "table", "é"]),
            "price": st.integers(0, 40).map(lambda units: units * 2_500),
            "stock_quantity": st.integers(0, 2),
            "status": st.sampled_from(["active", "active", "draft", "archived"]),
        }
    ),
    max_size=15,
)
FILTERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "category": st.sampled_from(["light", "table", "é", "none"]),
        "min_price": st.integers(0, 10),
        "max_price": st.integers(5, 10),
        "in_stock": st.booleans(),
        "status": st.sampled_from(["active", "draft", "archived"]),
    },
)


def passes(filters: dict[str, Any], product: Product) -> bool:
    in_stock = product.stock_quantity > 0
    return all(
        (
            product.status == filters.get("status", "active"),
            product.category == filters.get("category", product.category),
            filters.get("min_price", 0) * 10_000 <= product.price,
            product.price <= filters.get("max_price", 10) * 10_000,
            in_stock == filters.get("in_stock", in_stock),
        )
    )


@settings(EXAMPLES, max_examples=12)
@given(
    products=PRODUCTS, choices=st.lists(FILTERS, min_size=1, max_size=4), limit=st.integers(1, 5)
)
async def test_filters_choose_products_as_a_plain_loop_does(
    api: Api, products: list[dict[str, Any]], choices: list[dict[str, Any]], limit: int
) -> None:
    async with api.live.db.transaction() as tx:
        await api.live[Products].delete_all(tx)
    caller = await api.caller("viewer")
    stored = [await api.product(**values) for values in products]
    for filters in choices:
        assume(filters.get("min_price", 0) <= filters.get("max_price", 10))
        expected = [product.id for product in reversed(stored) if passes(filters, product)]
        params = {k: str(v).lower() if isinstance(v, bool) else v for k, v in filters.items()}
        assert await read_pages(caller, "/products", limit, **params) == expected


async def test_an_empty_search_is_no_search_and_price_bounds_are_exact(api: Api) -> None:
    caller = await api.caller("viewer")
    product = await api.product(price=100_001)
    for query in ("search=", "search", "search=%20", "search=!%22"):
        assert ids(await caller.get(f"/products?{query}")) == [product.id], query
    for low, high, found in [
        ("10.0001", "10.0001", True),
        ("10.00011", "11", False),
        ("1.00001e1", "1000100e-5", True),
        ("10.00002", "10.00008", False),
        ("0", "1e300", True),
    ]:
        answer = await caller.get("/products", params={"min_price": low, "max_price": high})
        assert ids(answer) == ([product.id] if found else []), (low, high)


@pytest.mark.parametrize("query", ["", "category=light", "search=lamp&min_price=0"])
async def test_rows_and_total_of_a_page_agree_beside_writers(api: Api, query: str) -> None:
    editor = await api.caller("editor")
    done = asyncio.Event()
    path = f"/products?limit=100&{query}".rstrip("&")

    async def write(number: int) -> None:
        for _ in range(4):
            body = {"name": "Lamp", "category": "light", "price": number, "status": "active"}
            where = (await editor.post("/products", json=body)).headers["location"]
            await editor.patch(where, json={"status": "archived"})
            await editor.patch(where, json={"status": "active"})
            if number % 2:
                await editor.delete(where)

    async def read() -> None:
        while not done.is_set():
            answer = await editor.get(path)
            assert len(ids(answer)) == answer.json()["pagination"]["total_items"]
            await asyncio.sleep(0)

    readers = [asyncio.create_task(read()) for _ in range(2)]
    await asyncio.gather(*(write(number) for number in range(6)))
    done.set()
    await asyncio.gather(*readers)
    assert (await editor.get(path)).json()["pagination"]["total_items"] == 12


@settings(EXAMPLES, max_examples=12)
@given(data=st.data())
async def test_links_show_each_lasting_row_once_beside_writers(
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
        seen += ids(answer)
        if gone := data.draw(st.sampled_from([0, *sorted(there)])):
            assert (await admin.delete(f"/products/{gone}")).status_code == 204
            there.remove(gone)
        if data.draw(st.booleans()):
            await api.product(name="Oak", category=category)
        following = next_of(answer)
    assert len(seen) == len({*seen})
    assert there <= {*seen}


# Links


@one_engine
async def test_a_link_of_events_repeats_the_query_with_the_last_id(api: Api) -> None:
    admin = await api.caller("admin")
    for number in range(3):
        await create(admin, "/products", number)
    answer = await admin.get("/events?type=product.created%2Cuser.*&after=0&limit=2")
    following = next_of(answer)
    assert following is not None
    assert following.startswith("https://localhost:8443/v1/events?")
    last = str(answer.json()["pagination"]["last_id"])
    asked = {"type": "product.created,user.*", "limit": "2", "after": last}
    assert dict(httpx.URL(following).params) == asked
    answer = await admin.get(following)
    assert [event["data"]["name"] for event in answer.json()["data"]] == ["Lamp 2"]
    assert next_of(answer) is None


@one_engine
async def test_a_link_repeats_the_filters_and_is_the_same_each_time(api: Api) -> None:
    admin = await api.caller("admin")
    for _ in range(3):
        await api.product(category='été & <a>"; b')
    address = "/products?page=1&category=%C3%A9t%C3%A9+%26+<a>%22%3B+b&limit=1&search="
    link = next_of(await admin.get(address))
    assert link is not None
    asked = dict(httpx.URL(link).params)
    assert link.startswith("https://localhost:8443/v1/products?")
    assert asked.pop("cursor")
    assert asked == {"category": 'été & <a>"; b', "limit": "1", "search": ""}
    assert next_of(await admin.get(address)) == link


@one_engine
async def test_a_cursor_contains_no_name_or_email(api: Api) -> None:
    admin = await api.caller("admin")
    await api.account(name="Ödön von Horváth", email="odon@example.com")
    for sort in ("name", "email"):
        link = next_of(await admin.get(f"/users?limit=1&sort={sort}"))
        assert link is not None
        assert "odon" not in link
        assert "b2Rvb" not in link


@one_engine
async def test_a_cursor_of_another_list_query_or_environment_is_400(api: Api) -> None:
    admin, tester = await api.caller("admin"), await api.caller("admin", "test")
    for _ in range(3):
        await api.product(category="light")
    link = next_of(await admin.get("/products?limit=1"))
    assert link is not None
    cursor = httpx.URL(link).params["cursor"]
    other = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    for address in (
        *("/products?cursor=", "/products?cursor=1", "/products?cursor=%F0%9F%92%A1"),
        *(f"/products?cursor={'A' * 3_000}", f"/products?cursor={other}"),
        *(f"/products?cursor={cursor[:-4]}", f"/products?cursor={cursor}%0A%3D"),
        *(f"/products?page=2&cursor={cursor}", f"/products?cursor={cursor}&status=draft"),
        f"/users?cursor={cursor}",
    ):
        assert refused(await admin.get(address), 400).keys() == {"cursor"}, address
    assert refused(await tester.get(f"/products?cursor={cursor}"), 400).keys() == {"cursor"}
    assert next_of(await admin.get(f"/products?limit=2&cursor={cursor}")) is None


# Faults of queries

BAD_PAGES = {
    **dict.fromkeys(
        ("page=0", "page=-1", "page=1.5", "page=%D9%A1", f"page={2**63}", "page=" + "9" * 5_000),
        "page",
    ),
    **dict.fromkeys(("limit=0", "limit=101", "limit=", "limit", "limit=%ff"), "limit"),
    **dict.fromkeys(("limit=10&limit=10", "lim%69t=10&limit=10"), "limit"),
    "sort=foo": "sort",
    "unknown=1": "unknown",
    "=1": "",
}
BAD_USERS = {
    "sort=Name": "sort",
    "order=down": "order",
    "search=x": "search",
    **dict.fromkeys(("role=owner", "role="), "role"),
}
BAD_PRODUCTS = {
    **dict.fromkeys(("category=", "category=" + "x" * 101), "category"),
    **dict.fromkeys(("min_price=-1", "min_price=NaN", "min_price=1,5"), "min_price"),
    **dict.fromkeys(("max_price=Infinity", "max_price=1_000"), "max_price"),
    "min_price=2&max_price=1": "min_price",
    "min_price=1.00002&max_price=1.00001": "min_price",
    "min_price=2e12&max_price=1e12": "min_price",
    "in_stock=yes": "in_stock",
    "in_stock=True": "in_stock",
    "status=gone": "status",
    **dict.fromkeys(("search=%00", "search=%ed%a0%80", "search=" + "x" * 201), "search"),
    "search=a&search=a": "search",
    "sort=name": "sort",
    "page=0&limit=0&status=x&nope=1&min_price=x": "page limit status nope min_price",
    "limit=0&min_price=2&max_price=1": "limit min_price",
    "min_price=2&max_price=1&page=1&cursor=abc": "min_price cursor",
}
BAD_QUERIES: dict[str, dict[str, str]] = {
    "/users": BAD_PAGES | BAD_USERS,
    "/products": BAD_PAGES | BAD_PRODUCTS,
    "/webhooks/{hook}/deliveries": BAD_PAGES,
    "/api-keys": BAD_PAGES | {"user_id=x": "user_id"},
    **{path: {"page=1": "page"} for path in ("/webhooks", "/users/me", "/users/1", "/products/1")},
}
"""By path: queries, and the fields of their faults."""


@one_engine
@pytest.mark.parametrize("path", BAD_QUERIES)
async def test_every_fault_of_a_query_is_named(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    where = await fill(api, admin, path) if "{hook}" in path else path
    for query, fields in BAD_QUERIES[path].items():
        found = refused(await admin.get(f"{where}?{query}"), 400, "VALIDATION_ERROR").keys()
        assert found == set(fields.split() or [""]), query
