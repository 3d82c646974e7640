"""What holds for every list: its pages, its filters, its environment, and the way to all of it."""

import re
from collections.abc import Awaitable, Callable
from html import unescape
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest

from driving import NOON, Api
from pages.visiting import faults, rows, signed_in
from portico.core.audit import OPERATOR
from portico.core.events import EVENT_TYPES, Published
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.clients import Registration, register_client
from portico.features.events.storage import Events
from portico.features.people.accounts import give_key
from portico.features.people.invitations import invite
from portico.web.pages.paging import PER_PAGE

TWO_PRICES = {"min_price": "Must be a number, such as 24.50.", "max_price": "Can be read in two"}


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    return each_database


async def add_user(api: Api, env: Environment, _user: User, name: str) -> None:
    await api.account("editor", env=env, name=name)


async def add_key(api: Api, env: Environment, user: User, name: str) -> None:
    key_type = "live" if env is api.live else "test"
    await give_key(api.live, user, name=name, key_type=key_type, expires_at=None, by=OPERATOR)


async def add_product(api: Api, env: Environment, _user: User, name: str) -> None:
    await api.product(env, name=name, category="light & warm")


async def add_client(_api: Api, env: Environment, _user: User, name: str) -> None:
    wanted = Registration(name, ["https://shop.example/callback"], "")
    await register_client(env, None, wanted, public=True, by=OPERATOR)


async def add_invitation(_api: Api, env: Environment, _user: User, name: str) -> None:
    email = f"{name.replace(' ', '-').lower()}@example.com"
    await invite(env, email=email, role="viewer", plan="free", handed_over=True, by=OPERATOR)


Add = Callable[[Api, Environment, User, str], Awaitable[None]]
LISTS: dict[str, Add] = {
    "/users?search=ITEM&role=editor": add_user,
    "/sandbox/keys": add_key,
    "/keys/all?search=item&unused=ever": add_key,
    "/sandbox/clients": add_client,
    "/products?category=light+%26+warm&status=active": add_product,
    "/users/invitations": add_invitation,
}


def numbers(page: httpx.Response) -> list[int]:
    """The numbers of the items in a list, in its order."""
    found = [re.search(r"item.(\d+)\b", row.lower()) for row in rows(page)]
    return [int(one[1]) for one in found if one]


def linked(page: httpx.Response, rel: str) -> list[str]:
    """Where a page leads as the next or the previous one."""
    found = re.findall(rf'rel="{rel}" href="/dashboard(.*?)"', page.text)
    return [unescape(path) for path in found]


@pytest.mark.parametrize("path", LISTS)
async def test_list_has_numbered_pages_newest_first_that_keep_its_filters_and_environment(
    api: Api, path: str
) -> None:
    user, admin = await signed_in(api, "admin", name="Boss")
    envs = (api.sandbox, api.live) if path.startswith("/sandbox") else (api.live, api.sandbox)
    size = PER_PAGE + 2
    for number in range(size):
        await LISTS[path](api, envs[0], user, f"Item {number}")
    if path != "/users/invitations":
        await LISTS[path](api, envs[1], user, "Item 99")
    first = await admin.get(path)
    assert numbers(first) == [*range(size - 1, 1, -1)]
    assert ">Page 1 of 2<" in first.text
    (following,) = linked(first, "next")
    second = await admin.get(following)
    assert numbers(second) == [1, 0]
    assert linked(second, "next") == []
    (back,) = linked(second, "prev")
    assert rows(await admin.get(back)) == rows(first)
    joined = path + ("&" if "?" in path else "?")
    assert rows(await admin.get(f"{joined}page={10**17}")) == rows(second)
    for page in ("0", "x", "%00"):
        assert rows(await admin.get(f"{joined}page={page}")) == rows(first), page


@pytest.mark.one_engine
@pytest.mark.parametrize("path", LISTS)
async def test_page_to_jump_to_keeps_the_filters_of_its_list(api: Api, path: str) -> None:
    user, admin = await signed_in(api, "admin", name="Boss")
    env = api.sandbox if path.startswith("/sandbox") else api.live
    for number in range(2 * PER_PAGE + 1):
        await LISTS[path](api, env, user, f"Item {number}")
    page = (await admin.get(path)).text.partition('aria-label="Pages"')[2].partition("</nav>")[0]
    sent = dict(re.findall(r'name="(\w+)" value="(.*?)"', page))
    filters = dict(parse_qsl(path.partition("?")[2]))
    assert {name: unescape(text) for name, text in sent.items()} == {**filters, "page": "1"}
    action = f'action="/dashboard{path.partition("?")[0]}"'
    assert action in page
    last = await admin.get(f"{path.partition('?')[0]}?{urlencode({**filters, 'page': 3})}")
    assert numbers(last) == [0]


async def test_users_are_sorted_by_the_columns_of_their_list(api: Api) -> None:
    _, admin = await signed_in(api, "admin", name="Boss")
    for number, role in ((1, "editor"), (2, "viewer"), (0, "editor")):
        await api.account(role, name=f"Item {number}")
    for query, found in (
        ("", [0, 2, 1]),
        ("sort=name&order=asc", [0, 1, 2]),
        ("sort=created_at&order=asc&role=editor", [1, 0]),
        ("sort=role&order=asc", [1, 0, 2]),
        ("sort=last_login_at&order=asc&role=editor", [1, 0]),
        ("sort=name&search=item&state=active", [2, 1, 0]),
        ("sort=plan&order=asc", [0, 2, 1]),
    ):
        assert numbers(await admin.get(f"/users?{query}")) == found, query
    page = await admin.get("/users?sort=last_login_at&order=desc&search=e")
    assert rows(page)[0].startswith("Boss"), "the others never signed in"
    assert 'aria-sort="descending"><a href="/dashboard/users?search=e&amp;sort=last_' in page.text
    assert rows(await admin.get("/users?sort=last_login_at&order=asc"))[-1].startswith("Boss")


@pytest.mark.one_engine
async def test_list_without_a_match_leads_to_all(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    for path, query in (
        ("/users", "search=nobody"),
        ("/keys/all", "unused=90"),
        ("/audit", "user=nobody@example.com"),
        ("/events", "type=sandbox.reset"),
        ("/products", "search=nothing"),
    ):
        page = await admin.get(f"{path}?{query}")
        assert rows(page) == []
        assert f'<a class="button" href="/dashboard{path}">Show all</a>' in page.text
        assert f'id="clear" href="/dashboard{path}">Clear</a>' in page.text
        plain = (await admin.get(path)).text
        assert "Show all" not in plain
        assert f'id="clear" href="/dashboard{path}" hidden>Clear</a>' in plain


DATE = "Must be a date such as 2027-01-31."
TYPE = "This type does not exist, or you have no access to it."


UNREADABLE: list[tuple[str, str, str, dict[str, str]]] = [
    ("admin", "/audit", "from=2026-02-30", {"from": DATE}),
    ("admin", "/audit", "from=2026-03-15&to=2026-03-14", {"to": "Must not be before the"}),
    ("admin", "/audit", "action=nothing.of.ours", {"action": "Must be an action that the"}),
    ("admin", "/audit", "target=17", {"target": "Must be a kind and an id, such as product"}),
    ("admin", "/events", "type=nothing.of.ours&before=99", {"type": TYPE}),
    ("viewer", "/events", "type=api_key.created", {"type": TYPE}),
    ("viewer", "/products", "min_price=cheap&max_price=1,234", TWO_PRICES),
    ("admin", "/requests", "account=nobody@example.com", {"account": "No account has this"}),
]


@pytest.mark.one_engine
async def test_unreadable_filter_is_named_beside_its_field_and_lists_nothing(api: Api) -> None:
    visitors = {role: (await signed_in(api, role))[1] for role in ("admin", "viewer")}
    await api.product()
    async with api.live.db.transaction() as tx:
        for kind in EVENT_TYPES:
            await api.live[Events].add(tx, NOON, Published(kind, '{"id":7,"name":"Lamp"}'))
    for role, path, query, told in UNREADABLE:
        page = await visitors[role].get(f"{path}?{query}")
        assert page.status_code == 200
        found = {name: text for name, text in faults(page).items() if text}
        assert found.keys() == told.keys()
        for name, words in told.items():
            assert found[name].startswith(words)
        assert page.text.count('aria-invalid="true"') == len(told)
        assert "<title>Error: " in page.text
        assert "<tbody>" not in page.text
        name, _, typed = query.partition("&")[0].partition("=")
        assert f'value="{typed}"' in unescape(page.text).partition(f'name="{name}"')[2]
        if path in ("/audit", "/products"):
            export = await visitors[role].get(f"{path}/export?format=csv&{query}")
            assert export.status_code == 400, query
