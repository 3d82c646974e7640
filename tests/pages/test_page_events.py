"""Events in the dashboard, on both databases: the newest first, as far as one may see them."""

import re
from html import unescape

import httpx
import pytest

from driving import Api
from owned import keys_of
from pages.visiting import signed_in
from portico.core.events import Published
from portico.environment import Environment
from portico.features.events.storage import Events


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
            await env[Events].add(tx, api.clock(), told)


def listed(text: str) -> list[str]:
    """The types of the events that a page lists."""
    return re.findall(r'<th scope="row">(?:<a [^>]*>)?<code>(.*?)</code>', text)


def leading(page: httpx.Response) -> list[tuple[str, str]]:
    """What the events of a page tell of, and where that leads, of those that lead somewhere."""
    found = re.findall(r'(?:told"|<span)><a href="/dashboard([^"]*)">([^<]*)</a>', page.text)
    return [(name, path) for path, name in found]


def latest(text: str) -> list[str]:
    """The types of the events that the overview shows."""
    return re.findall(r"</time> <code>([^<]*)</code> <span>", text)


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
    [path] = re.findall(r'href="/dashboard(/events/\d+)"><code>product.updated<', page.text)
    one = (await admin.get(path)).text
    assert "&#34;price&#34;: 3" in one.partition("Data")[2]
    assert "&#34;price&#34;: 2" in one.partition("Previous values")[2]
    assert "<b>" not in one
    overview = await admin.get("")
    assert latest(overview.text)[:2] == ["product.updated", "product.created"]
    assert "&lt;b&gt;Lamp" in overview.text


@pytest.mark.one_engine
async def test_event_links_its_resource_for_those_permitted_to_see_that(api: Api) -> None:
    boss, admin = await signed_in(api, "admin")
    other, viewer = await signed_in(api)
    maker = await api.caller("admin", user=boss)
    body = {"name": "<b>Lamp", "category": "a", "price": 2}
    lamp, gone = [(await maker.post("/products", json=body)).json()["data"]["id"] for _ in range(2)]
    await maker.delete(f"/products/{gone}")
    await maker.patch(f"/users/{other.id}", json={"name": "Grace"})
    await maker.patch(f"/users/{other.id}/account", json={"plan": "pro"})
    await admin.post("/keys/new", name="Till", type="live", expiry="90d")
    key = (await keys_of(api.live, boss.id))[-1]
    product = ("&lt;b&gt;Lamp", f"/products/{lamp}")
    user = f"/users/{other.id}"
    of_admins = [("Till", f"/keys/{key.id}"), (str(other.id), user), ("Grace", user), product]
    for path, count in (("/events", 4), ("", 3)):
        assert leading(await admin.get(path))[:count] == of_admins[:count]
    for _, path in of_admins:
        assert (await admin.get(path)).status_code == 200, path
    for page in (await viewer.get("/events"), await viewer.get("")):
        assert leading(page) == [product]


@pytest.mark.one_engine
async def test_role_decides_which_events_are_listed(api: Api) -> None:
    await tell(api, "api_key.created", "user.created", "sandbox.reset", "product.deleted")
    for role in ("viewer", "editor"):
        _, somebody = await signed_in(api, role)
        page = await somebody.get("/events")
        assert listed(page.text) == ["product.deleted", "user.created"]
        assert latest((await somebody.get("")).text) == ["product.deleted", "user.created"]
        shown = [(await somebody.get(f"/events/{number}")).status_code for number in range(1, 6)]
        assert shown == [404, 200, 404, 200, 404]


async def test_events_are_listed_in_their_environment_alone(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await tell(api, "product.created")
    await tell(api, "product.deleted", env=api.sandbox)
    for base, types in (("", ["product.created"]), ("/sandbox", ["product.deleted"])):
        assert listed((await admin.get(f"{base}/events?type=product.*")).text) == types
        assert latest((await admin.get(base)).text)[0] == types[0]


@pytest.mark.one_engine
async def test_large_event_is_cut(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    long = "x" * 500_000
    data = f'{{"id":1,"name":"Lamp","a":"{long}"}}'
    async with api.live.db.transaction() as tx:
        told = Published("product.updated", data, f'{{"a":"{long}"}}')
        await api.live[Events].add(tx, api.clock(), told)
    listed = await admin.get("/events?type=product.*")
    [path] = re.findall(r'href="/dashboard(/events/\d+)"', listed.text)
    page = await admin.get(path)
    assert page.text.count(" more characters") == 2
    assert len(page.text) < 50_000


async def test_events_are_listed_in_pages_from_the_newest_to_the_oldest_and_back(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await tell(api, "user.created", *["product.created"] * 19, "product.deleted")
    first = await admin.get("/events?type=product.*")
    assert listed(first.text) == ["product.deleted"] + ["product.created"] * 14
    assert '<option value="product.*" selected>' in first.text
    assert 'rel="prev"' not in first.text
    (older,) = re.findall(r'rel="next" href="/dashboard(.*?)"', first.text)
    second = await admin.get(unescape(older))
    assert listed(second.text) == ["product.created"] * 5
    assert 'rel="next"' not in second.text
    for words in ("Newest", "Newer"):
        (way,) = re.findall(rf'href="/dashboard([^"]*)">{words}<', second.text)
        assert listed((await admin.get(unescape(way))).text) == listed(first.text)
    for number in ("0", "x", "-1", "9" * 30, "%00"):
        for name in ("before", "after"):
            page = await admin.get(f"/events?{name}={number}")
            assert page.status_code == 200, (name, number)
