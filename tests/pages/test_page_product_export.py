"""The file that a list of products gives."""

import csv
import io
import json
import socket

import httpx
import pytest

from driving import Api, InProcess
from pages.test_page_products import shop
from pages.visiting import Visitor, signed_in
from portico.storage.products import EXPORT_BATCH

pytestmark = pytest.mark.one_engine


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    return each_database


async def exported(visitor: Visitor, query: str) -> httpx.Response:
    answer = await visitor.get(f"/products/export?{query}")
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["Desk lamp", "Lamp shade", "Chair", "Table & lamp", "Scarf"]),
        ("status=active", ["Desk lamp", "Table & lamp", "Scarf"]),
        ("status=&category=lighting", ["Desk lamp", "Lamp shade"]),
        ("min_price=24.50&max_price=1200,00&stock=yes", ["Desk lamp", "Chair"]),
        ("search=LAM", ["Desk lamp", "Lamp shade", "Table & lamp"]),
        ("search=lamp&status=active", ["Desk lamp", "Table & lamp"]),
        ("search=lamp&category=lighting&stock=yes&page=2", ["Desk lamp"]),
        ("search=nothing", []),
    ],
)
async def test_an_export_gives_what_the_filters_show(
    api: Api, query: str, names: list[str]
) -> None:
    await shop(api)
    _, viewer = await signed_in(api)

    table = await exported(viewer, f"{query}&format=csv")
    lines = await exported(viewer, f"{query}&format=ndjson")

    assert [row["name"] for row in csv.DictReader(io.StringIO(table.text, newline=""))] == names
    assert [json.loads(line)["name"] for line in lines.text.splitlines()] == names


async def test_an_export_is_a_file_with_a_name_that_nobody_keeps(api: Api) -> None:
    _, viewer = await signed_in(api)
    table = await exported(viewer, "format=csv")
    lines = await exported(viewer, "format=ndjson")

    assert table.headers["content-type"].startswith("text/csv")
    assert lines.headers["content-type"] == "application/x-ndjson"
    day = "2026-03-15"
    named = 'attachment; filename="products-live-{}.{}"'
    assert table.headers["content-disposition"] == named.format(day, "csv")
    assert lines.headers["content-disposition"] == named.format(day, "ndjson")
    assert table.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("query", ["status=active", "search=lamp", "stock=yes&max_price=99"])
async def test_an_export_goes_on_over_many_batches(api: Api, query: str) -> None:
    made = [
        await api.product(name=f"Lamp {n}", status="active", stock_quantity=1) for n in range(3)
    ]
    async with api.live.db.transaction() as tx:
        await api.live.products.insert_many(tx, made * (EXPORT_BATCH - 1))
    _, viewer = await signed_in(api)

    lines = (await exported(viewer, f"{query}&format=ndjson")).text.splitlines()

    ids = [json.loads(line)["id"] for line in lines]
    assert len(ids) == 3 * EXPORT_BATCH
    assert ids == sorted(set(ids))


async def test_an_export_that_a_stop_cuts_off_is_not_taken_for_the_whole(api: Api) -> None:
    made = await api.product()
    async with api.live.db.transaction() as tx:
        await api.live.products.insert_many(tx, [made] * EXPORT_BATCH)
    _, viewer = await signed_in(api)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours = listener.accept()[0]
    theirs.settimeout(0)
    with ours, theirs:
        here = InProcess(api, "{}:{}".format(*theirs.getsockname()))
        cookies = "; ".join(f"{one.name}={one.value}" for one in viewer.client.cookies.jar)
        await here.exchange(
            "GET",
            "/dashboard/products/export?format=csv",
            [("host", "localhost:8443"), ("cookie", cookies)],
        )
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        await api.server.pipeline.streams.stop()
        assert theirs.recv(1) == b""


@pytest.mark.parametrize("query", ["format=xml", "", "format=csv&min_price=x"])
async def test_a_file_that_cannot_be_made_is_told(api: Api, query: str) -> None:
    _, viewer = await signed_in(api)
    assert (await viewer.get(f"/products/export?{query}")).status_code == 400


async def test_the_list_offers_an_export_of_its_filters(api: Api) -> None:
    _, viewer = await signed_in(api)
    page = await viewer.get("/products?search=a+lamp&status=active")
    assert '<input type="hidden" name="search" value="a lamp">' in page.text
    assert '<input type="hidden" name="status" value="active">' in page.text
    assert "<button>Export</button>" in page.text


async def test_a_file_is_compressed_for_a_browser_that_takes_that(api: Api) -> None:
    _, viewer = await signed_in(api)
    await shop(api)
    plain, coded = [
        await viewer.get("/products/export?format=csv", **{"accept-encoding": accepted})
        for accepted in ("identity", "gzip")
    ]
    assert coded.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == coded.headers["vary"] == "Accept-Encoding"
    assert plain.text == coded.text


async def test_a_page_that_holds_a_token_is_never_compressed(api: Api) -> None:
    """Its length would tell of the token, a guess at a time (BREACH)."""
    _, viewer = await signed_in(api)
    await shop(api)
    page = await viewer.get("/products", **{"accept-encoding": "gzip"})
    assert 'name="csrf"' in page.text
    assert "content-encoding" not in page.headers
