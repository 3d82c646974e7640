"""The dashboard's search over everything: who finds what, of which kind."""

import re
from html import unescape

import httpx
import pytest

from driving import Api
from pages.visiting import Visitor, signed_in
from portico.core.scopes import PERMISSIONS
from portico.web.pages.search import MOST

EVERYBODYS = {
    "Overview", "API keys", "Applications", "Requests", "Events", "Profile", "Sign-in security",
    "Devices",
}  # fmt: skip
ADMINS = {"Users", "OAuth clients", "Webhooks", "Audit log"}
OF_KINDS = {"Products", "Orders", "Things"}

WHO = {
    "admin": {"product", "user", "thing"},
    "viewer": {"product", "thing"},
    "till": {"thing"},
}
"""Which kinds of records each role finds; `till` has no scope but that of things."""


def hits(answer: httpx.Response) -> dict[str, str]:
    """What a search has found: the paths, and their names."""
    assert answer.status_code == 200, answer.text
    listed = answer.text.partition('<div id="hits">')[2].partition("</main>")[0]
    found = re.findall(r'<a href="/dashboard(.*?)"><span class="three">(.*?)</span>', listed)
    return {unescape(path): unescape(name) for path, name in found}


async def visitor_of(api: Api, role: str) -> Visitor:
    PERMISSIONS.add_role("till", ["read:things"])
    _, visitor = await signed_in(api, role, name="Somebody")
    return visitor


@pytest.mark.parametrize("role", WHO)
async def test_search_finds_records_of_each_kind_that_a_role_may_read(api: Api, role: str) -> None:
    product = await api.product(name="Brass lamp")
    user = await api.account(name="Lamplighter", email="o'neil@example.com")
    caller = await api.caller()
    made = await caller.post("/things", json={"name": "Lamp <b>", "essay": "Of light."})
    thing = made.json()["data"]["id"]
    somebody = await visitor_of(api, role)
    names = {
        "product": (f"/products/{product.id}", "Brass lamp"),
        "user": (f"/users/{user.id}", "Lamplighter, o'neil@example.com"),
        "thing": (f"/things/{thing}", "Lamp <b>"),
    }
    texts = {"product": "brass", "user": "O'Neil", "thing": "of LIGHT"}
    for kind, hit in names.items():
        expected = dict([hit]) if kind in WHO[role] else {}
        assert hits(await somebody.get(f"/search?q={texts[kind]}")) == expected, kind
        by_id = hits(await somebody.get(f"/search?q={hit[0].rpartition('/')[2]}"))
        assert (by_id.get(hit[0]) == hit[1]) is (kind in WHO[role]), kind
    assert hits(await somebody.get("/sandbox/search?q=lamp")) == {}


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("role", "pages"),
    [
        ("admin", EVERYBODYS | ADMINS | OF_KINDS),
        ("viewer", EVERYBODYS | OF_KINDS),
        ("till", EVERYBODYS | {"Things"}),
    ],
)
async def test_search_and_menu_name_the_pages_that_a_role_may_open(
    api: Api, role: str, pages: set[str]
) -> None:
    somebody = await visitor_of(api, role)
    page = await somebody.get("/search")
    found = hits(page)
    assert set(found.values()) == pages
    menu = page.text.partition('<nav aria-label="Dashboard">')[2].partition("</nav>")[0]
    in_menu = set(re.findall(r'<li><a href="/dashboard(.*?)"', menu))
    assert in_menu == found.keys()
    for path in found:
        assert (await somebody.get(path)).status_code == 200, path
    assert set(hits(await somebody.get("/search?q=SIGN")).values()) == {"Sign-in security"}


@pytest.mark.one_engine
async def test_search_finds_the_first_of_many_and_nothing_in_signs(api: Api) -> None:
    for _ in range(MOST + 1):
        await api.product(name="Lamp")
    _, viewer = await signed_in(api)
    page = await viewer.get("/search?q=lamp")
    assert len(hits(page)) == MOST
    assert "<b>" not in page.text
    for text in ("!", '"*', "x" * 5_000, "9" * 40, "<script>"):
        page = await viewer.get(f"/search?q={text}")
        assert hits(page) == {}, text
        assert "<script>" not in page.text.partition("<main")[2]


@pytest.mark.one_engine
async def test_strangers_are_asked_to_sign_in_before_they_search(api: Api) -> None:
    answer = await api.stranger().get("https://localhost:8443/dashboard/search?q=lamp")
    assert answer.status_code == 303
    assert "/sign-in?next=%2Fdashboard%2Fsearch%3Fq%3Dlamp" in answer.headers["location"]
