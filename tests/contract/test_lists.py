"""Pages of users and products: order, filters, totals (specification §2.3, §4; decisions §7)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from driving import EXAMPLES, Api, Caller, refused
from portico.domain.products import Product
from portico.domain.text import case_key
from portico.domain.users import User

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NAMES = st.lists(
    st.one_of(TEXT, st.sampled_from(["a", "A", "b", "Ä", "a\u0308", "ß", "SS", "z", "Z", "_"])),
    max_size=12,
)


async def everything(caller: Caller, path: str, limit: int, **params: Any) -> tuple[list[Any], int]:
    """The ids of all pages in order, and the total that each of them told."""
    ids: list[Any] = []
    page = 0
    while True:
        page += 1
        answer = await caller.get(path, params={"page": page, "limit": limit, **params})
        assert answer.status_code == 200, answer.text
        body = answer.json()
        total = body["pagination"]["total_items"]
        assert body["pagination"] == {
            "page": page,
            "limit": limit,
            "total_items": total,
            "total_pages": -(-total // limit),
        }
        ids += [item["id"] for item in body["data"]]
        if not body["data"]:
            return ids, total


@settings(EXAMPLES, max_examples=100)
@given(
    names=NAMES,
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
    expected = sorted(users, key=keys[sort], reverse=order == "desc")
    found, total = await everything(caller, "/users", limit, sort=sort, order=order)
    assert found == [user.id for user in expected]
    assert total == len(users)


async def test_users_come_newest_first_and_twenty_five_at_a_time(api: Api) -> None:
    caller = await api.caller("viewer")
    users = [await api.account() for _ in range(30)]
    body = (await caller.get("/users")).json()
    assert [item["id"] for item in body["data"]] == [user.id for user in reversed(users)][:25]
    assert body["pagination"] == {"page": 1, "limit": 25, "total_items": 31, "total_pages": 2}
    assert body["data"][0].keys() == {"id", "name", "email", "role", "created_at", "updated_at"}


async def test_a_role_filters_users_and_their_total(api: Api) -> None:
    caller = await api.caller("viewer")
    editors = [await api.account("editor") for _ in range(3)]
    found, total = await everything(caller, "/users", 2, role="editor", order="asc")
    assert found == [user.id for user in editors]
    assert total == 3
    assert await everything(caller, "/users", 2, role="admin") == ([], 0)


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


def chosen_by(filters: dict[str, Any], product: Product) -> bool:
    in_stock = product.stock_quantity > 0
    return all(
        (
            product.status == filters.get("status", "active"),
            product.category == filters.get("category", product.category),
            product.price >= filters.get("min_price", 0) * 10_000,
            product.price <= filters.get("max_price", 10) * 10_000,
            in_stock == filters.get("in_stock", in_stock),
        )
    )


@EXAMPLES
@given(
    products=PRODUCTS, choices=st.lists(FILTERS, min_size=1, max_size=4), limit=st.integers(1, 5)
)
async def test_filters_choose_products_as_a_person_would(
    api: Api, products: list[dict[str, Any]], choices: list[dict[str, Any]], limit: int
) -> None:
    async with api.live.db.transaction() as tx:
        await api.live.products.delete_all(tx)
    caller = await api.caller("viewer")
    stored = [await api.product(**values) for values in products]
    for filters in choices:
        assume(filters.get("min_price", 0) <= filters.get("max_price", 10))
        expected = [product.id for product in reversed(stored) if chosen_by(filters, product)]
        params = {k: str(v).lower() if isinstance(v, bool) else v for k, v in filters.items()}
        assert await everything(caller, "/products", limit, **params) == (expected, len(expected))


async def test_price_bounds_are_inclusive_and_exact(api: Api) -> None:
    caller = await api.caller("viewer")
    product = await api.product(price=100_001)
    for low, high, found in [
        ("10.0001", "10.0001", True),
        ("10.00011", "11", False),
        ("10", "10.0000999", False),
        ("1.00001e1", "1000100e-5", True),
        ("10.00005", "10.00005", False),
        ("10.00002", "10.00008", False),
        ("1e12", "1e12", False),
        ("0", "1e300", True),
    ]:
        ids, total = await everything(caller, "/products", 1, min_price=low, max_price=high)
        assert (ids, total) == (([product.id], 1) if found else ([], 0)), (low, high)


@pytest.mark.parametrize(
    "path",
    [
        *("/users?", "/users?sort=name&", "/users?role=viewer&"),
        *("/products?", "/products?search=lamp&", "/products?search=lamp&min_price=0&"),
        *("/products?category=light&", "/products?in_stock=false&max_price=1000000&"),
    ],
)
async def test_a_page_past_the_end_is_empty_and_tells_the_total(api: Api, path: str) -> None:
    caller = await api.caller("viewer")
    await api.product()
    for page in (2, 1_000_000_001, 2**53 // 100 + 2, 2**63 // 100 + 1, 2**63 - 1):
        answer = await caller.get(f"{path}page={page}&limit=100")
        assert answer.status_code == 200
        assert answer.json() == {
            "data": [],
            "pagination": {"page": page, "limit": 100, "total_items": 1, "total_pages": 1},
        }


async def test_an_empty_list_has_no_pages(api: Api) -> None:
    caller = await api.caller("viewer")
    assert (await caller.get("/products")).json() == {
        "data": [],
        "pagination": {"page": 1, "limit": 25, "total_items": 0, "total_pages": 0},
    }


@pytest.mark.parametrize(
    "query", ["", "category=light", "search=lamp", "search=lamp&min_price=0", "search=la"]
)
async def test_rows_and_total_of_one_answer_agree_while_others_write(api: Api, query: str) -> None:
    editor = await api.caller("editor")
    done = asyncio.Event()

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
            body = (await editor.get(f"/products?limit=100&{query}".rstrip("&"))).json()
            assert len(body["data"]) == body["pagination"]["total_items"]
            await asyncio.sleep(0)

    readers = [asyncio.create_task(read()) for _ in range(2)]
    await asyncio.gather(*(write(number) for number in range(6)))
    done.set()
    await asyncio.gather(*readers)
    found = (await editor.get(f"/products?limit=100&{query}".rstrip("&"))).json()
    assert found["pagination"]["total_items"] == 12


BAD_FOR_USERS = [
    ("page=0", "page"),
    ("page=-1", "page"),
    ("page=1.5", "page"),
    ("page=%D9%A1", "page"),
    (f"page={2**63}", "page"),
    ("page=" + "9" * 400, "page"),
    ("page=" + "9" * 5_000, "page"),
    ("limit=0", "limit"),
    ("limit=101", "limit"),
    ("limit=", "limit"),
    ("limit", "limit"),
    ("limit=%ff", "limit"),
    ("limit=10&limit=10", "limit"),
    ("lim%69t=10&limit=10", "limit"),
    ("sort=foo", "sort"),
    ("sort=Name", "sort"),
    ("order=down", "order"),
    ("role=owner", "role"),
    ("role=", "role"),
    ("unknown=1", "unknown"),
    ("=1", ""),
    ("search=x", "search"),
]


@pytest.mark.parametrize("query", ["&", "&&limit=1", "limit=1&"])
async def test_nothing_between_two_ampersands_is_no_parameter(api: Api, query: str) -> None:
    caller = await api.caller("viewer")
    assert (await caller.get(f"/users?{query}")).status_code == 200


async def test_a_bad_parameter_of_the_users_list_is_named(api: Api) -> None:
    caller = await api.caller("viewer")
    for query, field in BAD_FOR_USERS:
        answer = await caller.get(f"/users?{query}")
        assert refused(answer, 400, "VALIDATION_ERROR").keys() == {field}, query


BAD_FOR_PRODUCTS = [
    ("category=", {"category"}),
    ("category=" + "x" * 101, {"category"}),
    ("min_price=-1", {"min_price"}),
    ("min_price=NaN", {"min_price"}),
    ("min_price=1,5", {"min_price"}),
    ("max_price=Infinity", {"max_price"}),
    ("max_price=1_000", {"max_price"}),
    ("min_price=2&max_price=1", {"min_price"}),
    ("min_price=1.00002&max_price=1.00001", {"min_price"}),
    ("min_price=2e12&max_price=1e12", {"min_price"}),
    ("in_stock=yes", {"in_stock"}),
    ("in_stock=True", {"in_stock"}),
    ("status=gone", {"status"}),
    ("search=%00", {"search"}),
    ("search=%ed%a0%80", {"search"}),
    ("search=" + "x" * 201, {"search"}),
    ("search=a&search=a", {"search"}),
    ("sort=name", {"sort"}),
    (
        "page=0&limit=0&status=x&nope=1&min_price=x",
        {"page", "limit", "status", "nope", "min_price"},
    ),
    ("limit=0&min_price=2&max_price=1", {"limit", "min_price"}),
    ("min_price=2&max_price=1&page=1&cursor=abc", {"min_price", "cursor"}),
]


async def test_bad_parameters_of_the_products_list_are_all_named(api: Api) -> None:
    caller = await api.caller("viewer")
    for query, fields in BAD_FOR_PRODUCTS:
        answer = await caller.get(f"/products?{query}")
        assert refused(answer, 400, "VALIDATION_ERROR").keys() == fields, query


async def test_an_empty_search_is_no_search(api: Api) -> None:
    caller = await api.caller("viewer")
    first, second = await api.product(), await api.product(name="Chair")
    for query in ("search=", "search", "search=%20", "search=!%22"):
        body = (await caller.get(f"/products?{query}")).json()
        assert [item["id"] for item in body["data"]] == [second.id, first.id]
        assert body["pagination"]["total_items"] == 2


@pytest.mark.parametrize("path", ["/users/me", "/users/1", "/products/1"])
async def test_a_path_without_parameters_refuses_any(api: Api, path: str) -> None:
    caller = await api.caller("viewer")
    answer = await caller.get(path, params={"page": 1})
    assert refused(answer, 400, "VALIDATION_ERROR").keys() == {"page"}
