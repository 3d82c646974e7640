"""Events in the dashboard, on both databases: the newest first, as far as one may see them."""

import re
from html import unescape

import httpx
import pytest

from driving import Api
from owned import keys_of
from pages.visiting import signed_in
from portico.domain.published import EVENT_TYPES, Published
from portico.services.environment import Environment


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """On both databases."""
    return each_database


async def tell(api: Api, *types: str, env: Environment | None = None) -> None:
    """Stores an event of each type, as the change that it tells of does."""
    env = env or api.live
    async with env.db.transaction() as tx:
        for kind in types:
            told = Published(kind, f'{{"id":7,"name":"A {kind}"}}')
            await env.events.add(tx, api.clock(), told)


def listed(text: str) -> list[str]:
    """The types of the events that a page lists."""
    return re.findall(r'<th scope="row">[^<]*<small><code>(.*?)</code>', text)


def ids(page: httpx.Response) -> list[int]:
    """The ids of the events that a page lists."""
    return [int(text) for text in re.findall(r"</code> (\d+)</small>", page.text)]


def counted(page: httpx.Response) -> str:
    """What a page says of how many events it lists."""
    return page.text.partition('id="count"')[2].partition(">")[2].partition("</p>")[0].strip()


def leading(page: httpx.Response) -> list[tuple[str, str]]:
    """What the events of a page tell of, and where that leads, of those that lead somewhere."""
    found = re.findall(r'(?:told"|<span)><a href="/dashboard([^"]*)">([^<]*)</a>', page.text)
    return [(name, path) for path, name in found]


def latest(text: str) -> list[str]:
    """The types of the events that the overview shows."""
    return re.findall(r'</time> <small title="([^"]*)">[^<]*</small> <span>', text)


async def test_change_is_listed_as_event_at_once_with_previous_values(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    caller = await api.caller("admin")
    product = await caller.post("/products", json={"name": "<b>Lamp", "category": "a", "price": 2})
    path = f"/products/{product.json()['data']['id']}"
    await caller.patch(path, json={"price": 3})
    page = await admin.get("/events")
    assert listed(page.text)[:2] == ["product.updated", "product.created"]
    assert "&lt;b&gt;Lamp" in page.text
    assert "<b>" not in page.text
    assert "&#34;price&#34;: 2" in page.text.partition("Previous values:")[2]
    overview = await admin.get("")
    assert latest(overview.text)[:2] == ["product.updated", "product.created"]
    assert "&lt;b&gt;Lamp" in overview.text


async def test_events_are_listed_from_the_newest_to_the_oldest(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await tell(api, "user.created")
    assert counted(await admin.get("/events")) == "1 event"
    await tell(api, *["product.created"] * 19, "user.deleted")
    first = await admin.get("/events")
    assert counted(first) == "The newest 15 events"
    assert listed(first.text) == ["user.deleted"] + ["product.created"] * 14
    assert 'rel="prev"' not in first.text
    (older,) = re.findall(r'rel="next" href="/dashboard(.*?)"', first.text)
    second = await admin.get(unescape(older))
    assert listed(second.text) == ["product.created"] * 5 + ["user.created"]
    assert 'rel="next"' not in second.text
    assert counted(second) == "6 older events"
    (newest,) = re.findall(r'href="/dashboard([^"]*)">Newest<', second.text)
    assert listed((await admin.get(unescape(newest))).text) == listed(first.text)
    for id_text in ("", "0", "x", "-1", "9" * 18, "9" * 30, "%00"):
        for name in ("before", "after"):
            page = await admin.get(f"/events?{name}={id_text}")
            assert page.status_code == 200, (name, id_text)


async def test_event_pages_lead_back_to_the_newest(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await tell(api, *["product.created", "user.updated"] * 40)
    pages = [await admin.get("/events?type=product.*")]
    while older := re.findall(r'rel="next" href="/dashboard(.*?)"', pages[-1].text):
        pages.append(await admin.get(unescape(older[0])))
    assert [len(ids(page)) for page in pages] == [15, 15, 10]
    await tell(api, "product.deleted")
    walked = [pages.pop()]
    while newer := re.findall(r'rel="prev" href="/dashboard([^"]*)">Newer<', walked[-1].text):
        walked.append(await admin.get(unescape(newer[0])))
    assert [ids(page) for page in walked[1:-1]] == [ids(pages[1]), ids(pages[0])]
    assert listed(walked[-1].text) == ["product.deleted"] + ["product.created"] * 14
    assert ids(walked[-1])[1:] == ids(pages[0])[:-1]
    assert "Newest" not in walked[-1].text


async def test_event_filter_takes_one_type_or_all_of_a_noun(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await tell(api, *EVENT_TYPES)
    everything = list(reversed(EVENT_TYPES))
    for chosen, types in (
        ("", everything),
        ("product.updated", ["product.updated"]),
        ("product.*", ["product.deleted", "product.updated", "product.created"]),
    ):
        page = await admin.get(f"/events?type={chosen}")
        assert listed(page.text) == types, chosen
    await tell(api, *["user.created"] * 15)
    page = await admin.get("/events?type=user.*")
    (older,) = re.findall(r'rel="next" href="/dashboard(.*?)"', page.text)
    rest = await admin.get(unescape(older))
    assert listed(rest.text) == ["user.deleted", "user.updated", "user.created"]
    assert '<option value="user.*" selected>' in rest.text


@pytest.mark.one_engine
async def test_event_links_its_resource_for_those_permitted_to_see_that(api: Api) -> None:
    boss, admin = await signed_in(api, "admin")
    other, viewer = await signed_in(api)
    maker = await api.caller("admin", user=boss)
    body = {"name": "<b>Lamp", "category": "a", "price": 2}
    lamp, gone = [(await maker.post("/products", json=body)).json()["data"]["id"] for _ in range(2)]
    await maker.delete(f"/products/{gone}")
    await maker.patch(f"/users/{other.id}", json={"name": "Grace"})
    await admin.post("/keys", name="Till", type="live", expiry="90d")
    key = (await keys_of(api.live, boss.id))[-1]
    product = ("&lt;b&gt;Lamp", f"/products/{lamp}")
    of_admins = [("Till", f"/keys/all?id={key.id}"), ("Grace", f"/users/{other.id}"), product]
    for page in (await admin.get("/events"), await admin.get("")):
        assert leading(page)[:3] == of_admins
    for _, path in of_admins:
        assert (await admin.get(path)).status_code == 200, path
    for page in (await viewer.get("/events"), await viewer.get("")):
        assert leading(page) == [product]


@pytest.mark.one_engine
async def test_sandbox_event_links_products_and_no_accounts(api: Api) -> None:
    boss, admin = await signed_in(api, "admin")
    lamp = await api.product(name="Lamp", env=api.sandbox)
    async with api.sandbox.db.transaction() as tx:
        for kind, row_id in (("user.updated", boss.id), ("product.updated", lamp.id)):
            told = Published(kind, f'{{"id":{row_id},"name":"Lamp"}}')
            await api.sandbox.events.add(tx, api.clock(), told)
    page = await admin.get("/sandbox/events")
    assert leading(page) == [("Lamp", f"/sandbox/products/{lamp.id}")]


@pytest.mark.parametrize("role", ["viewer", "editor"])
async def test_role_decides_which_events_are_listed(api: Api, role: str) -> None:
    _, somebody = await signed_in(api, role)
    await tell(api, "api_key.created", "user.created", "sandbox.reset", "product.deleted")
    page = await somebody.get("/events")
    assert listed(page.text) == ["product.deleted", "user.created"]
    assert "api_key" not in page.text
    assert latest((await somebody.get("")).text) == ["product.deleted", "user.created"]


async def test_events_are_listed_in_their_environment_alone(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await tell(api, "product.created")
    await tell(api, "product.deleted", env=api.sandbox)
    for base, types in (("", ["product.created"]), ("/sandbox", ["product.deleted"])):
        assert listed((await admin.get(f"{base}/events?type=product.*")).text) == types
        assert latest((await admin.get(base)).text)[0] == types[0]


@pytest.mark.one_engine
async def test_event_of_bulk_work_is_named_by_its_counts(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    async with api.live.db.transaction() as tx:
        for kind, data in (
            ("products.imported", '{"inserted":1200,"updated":3,"first_id":1,"last_id":1200}'),
            ("sandbox.reset", '{"users":10,"products":50}'),
        ):
            await api.live.events.add(tx, api.clock(), Published(kind, data))
    page = await admin.get("")
    assert "<span>1,200 inserted, 3 updated</span>" in page.text
    assert "<span>10 users, 50 products</span>" in page.text


@pytest.mark.one_engine
async def test_large_event_is_cut(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    long = "x" * 500_000
    data = f'{{"id":1,"name":"Lamp","a":"{long}"}}'
    async with api.live.db.transaction() as tx:
        told = Published("product.updated", data, f'{{"a":"{long}"}}')
        await api.live.events.add(tx, api.clock(), told)
    page = await admin.get("/events")
    assert listed(page.text)[0] == "product.updated"
    assert page.text.count(" more characters") == 2
    assert len(page.text) < 50_000
