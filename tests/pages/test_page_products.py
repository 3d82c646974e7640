"""The catalogue on pages, as who may look at it sees it."""

import csv
import io
import json
import re
from html import unescape
from typing import Any

import httpx
import pytest

from driving import Api
from pages.visiting import signed_in

LIST = re.compile(
    r'href="/dashboard(?:/sandbox)?/products/(\d+)(?:\?[^"]*)?"(?: title="[^"]*")?>(.*?)</a>'
)


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    return each_database


def listed(answer: httpx.Response) -> list[str]:
    """The names in a list, in its order."""
    assert answer.status_code == 200, answer.text
    return [unescape(name) for _, name in LIST.findall(answer.text)]


def counted(answer: httpx.Response) -> str:
    """What a list says of its size."""
    found = re.search(r'<p id="count" [^>]*>(.*?)</p>', answer.text)
    assert found
    return found[1]


async def shop(api: Api, **values: Any) -> None:
    """Five products that differ in what lists filter by."""
    for name, status, category, price, stock in (
        ("Desk lamp", "active", "lighting", 245_000, 3),
        ("Lamp shade", "draft", "lighting", 99_900, 0),
        ("Chair", "archived", "furniture", 12_000_000, 1),
        ("Table & lamp", "active", "furniture", 30_000_000, 0),
        ("Scarf", "active", "clothes", 1_250, 9),
    ):
        facts = {"name": name, "status": status, "category": category, "price": price}
        await api.product(**{**facts, "stock_quantity": stock, **values})


FOUND: list[tuple[str, list[str]]] = [
    ("status=", ["Scarf", "Table & lamp", "Chair", "Lamp shade", "Desk lamp"]),
    ("category=lighting&status=active", ["Desk lamp"]),
    ("min_price=24.50&max_price=1200,00", ["Chair", "Desk lamp"]),
    ("in_stock=false&status=active", ["Table & lamp"]),
    ("search=LAM&status=active", ["Table & lamp", "Desk lamp"]),
    ("search=lamp&category=lighting&in_stock=true", ["Desk lamp"]),
    ("search=desk+chair", []),
]


async def test_product_list_and_exports_show_what_the_filters_ask_for(api: Api) -> None:
    await shop(api)
    _, viewer = await signed_in(api)
    for query, names in FOUND:
        table = (await viewer.get(f"/products/export?{query}&format=csv")).text
        lines = (await viewer.get(f"/products/export?{query}&format=ndjson")).text
        oldest_first = names[::-1]
        rows = csv.DictReader(io.StringIO(table, newline=""))
        assert [row["name"] for row in rows] == oldest_first, query
        assert [json.loads(line)["name"] for line in lines.splitlines()] == oldest_first
        page = await viewer.get(f"/products?{query}")
        assert listed(page) == names, query
        assert counted(page).startswith(f"{len(names)} product")
        assert '<option value="furniture"></option>' in page.text


SORTED: list[tuple[str, list[str]]] = [
    ("sort=name&order=asc", ["Chair", "Desk lamp", "Lamp shade", "Scarf", "Table & lamp"]),
    ("sort=price", ["Table & lamp", "Chair", "Desk lamp", "Lamp shade", "Scarf"]),
    ("sort=stock_quantity&order=asc&status=active", ["Table & lamp", "Desk lamp", "Scarf"]),
    ("sort=category&order=desc&min_price=24.50", ["Desk lamp", "Table & lamp", "Chair"]),
    ("sort=status&order=asc&page=1", ["Desk lamp", "Table & lamp", "Scarf", "Chair", "Lamp shade"]),
    ("sort=created_at&order=asc&category=lighting", ["Desk lamp", "Lamp shade"]),
    ("search=lamp&sort=price&order=asc", ["Lamp shade", "Desk lamp", "Table & lamp"]),
    ("search=lamp&sort=price&order=desc&status=active", ["Table & lamp", "Desk lamp"]),
    ("search=lamp&sort=created_at&in_stock=false", ["Table & lamp", "Lamp shade"]),
    ("sort=description&order=asc&category=lighting", ["Lamp shade", "Desk lamp"]),
]


async def test_product_list_is_sorted_by_each_of_its_columns(api: Api) -> None:
    await shop(api)
    _, viewer = await signed_in(api)
    for query, names in SORTED:
        assert listed(await viewer.get(f"/products?{query}")) == names, query
    page = (await viewer.get("/products?search=lamp&sort=price&order=asc&limit=50")).text
    for query, title in (
        ("sort=name&amp;order=asc", "Name"),
        ("sort=price&amp;order=desc", "Price"),
        ("sort=created_at&amp;order=desc", "Created"),
    ):
        assert f'<a href="/dashboard/products?search=lamp&amp;{query}&amp;limit=50">{title}' in page
    assert page.count("aria-sort") == page.count('aria-sort="ascending"') == 1
    assert '<a href="/dashboard/products?search=lamp&amp;limit=50">Sort by relevance</a>' in page
    assert "aria-sort" not in (await viewer.get("/products?search=lamp")).text


@pytest.mark.one_engine
async def test_product_page_shows_every_field_escaped(api: Api) -> None:
    product = await api.product(
        name="<i>Lamp</i>",
        description="First line.\nSecond <line>.",
        price=12_345_000,
        stock_quantity=1_200,
        images='[{"url":"https://img.example.com/a.jpg?b=1&c=2","alt":"Lit & warm"},'
        '{"url":"http://img.example.com/b.jpg","alt":""}]',
        metadata='{"colour":"brass","<b>":"a\\nb"}',
    )
    _, viewer = await signed_in(api)
    page = await viewer.get(f"/products/{product.id}")
    assert page.status_code == 200
    for text in (
        "&lt;i&gt;Lamp&lt;/i&gt;", "Second &lt;line&gt;.", "1,234.50 USD", "1,200", "light",
        "15 Mar 2026, 12:00 UTC", "brass", "&lt;b&gt;", "a\nb", "Lit &amp; warm",
    ):  # fmt: skip
        assert text in page.text, text
    for address in ("https://img.example.com/a.jpg?b=1&amp;c=2", "http://img.example.com/b.jpg"):
        assert f'<a href="{address}" target="_blank" rel="noreferrer noopener">' in page.text
    assert "<img" not in page.text.partition("<main")[2], "nothing is loaded from another host"
