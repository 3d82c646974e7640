"""Invitations and OAuth clients in pages, for admins."""

import re
from html import unescape
from urllib.parse import parse_qsl

import pytest

from driving import Api
from pages.visiting import PASSWORD, Visitor, rows, signed_in
from portico.domain.audit import OPERATOR
from portico.services.clients import Registration, register_client
from portico.services.invitations import invite


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Either engine."""
    return each_database


async def invited(api: Api, many: int) -> None:
    """Invites so many people, one after the other."""
    for number in range(many):
        await invite(
            api.live,
            email=f"guest{number}@example.com",
            role="viewer",
            plan="free",
            handed_over=True,
            by=OPERATOR,
        )


async def test_invitations_come_in_pages_the_newest_first(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await invited(api, 27)
    first = await admin.get("/users/invitations")
    emails = [row.split()[0] for row in rows(first)]
    assert emails == [f"guest{number}@example.com" for number in range(26, 1, -1)]
    assert 'rel="next" href="/dashboard/users/invitations?page=2"' in first.text
    second = await admin.get("/users/invitations?page=2")
    assert [row.split()[0] for row in rows(second)] == ["guest1@example.com", "guest0@example.com"]
    assert 'rel="next"' not in second.text
    assert rows(await admin.get("/users/invitations?page=9")) == rows(second), "the last page"


async def test_the_page_of_users_tells_how_many_invitations_are_pending(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    assert ">Invitations" not in (await admin.get("/users")).text
    await invited(api, 2)
    link = '<a class="button" href="/dashboard/users/invitations">Invitations (2)</a>'
    assert link in (await admin.get("/users")).text
    async with api.live.db.transaction() as tx:
        await tx.run("UPDATE invitations SET expires_at = :now", {"now": api.clock()})
    assert ">Invitations" not in (await admin.get("/users")).text


async def test_users_are_found_by_their_state(api: Api) -> None:
    _, admin = await signed_in(api, "admin", name="Boss")
    one, _ = await signed_in(api, "viewer", name="Grace Hopper")
    await signed_in(api, "viewer", name="Grace Kelly")
    assert (await admin.post("/users/suspend", id=one.id)).status_code == 303
    for query, names in (
        ("state=suspended", ["Grace Hopper"]),
        ("state=active", ["Grace Kelly", "Boss"]),
        ("state=active&search=grace", ["Grace Kelly"]),
        ("state=suspended&role=admin", []),
        ("state=nothing", ["Grace Kelly", "Grace Hopper", "Boss"]),
    ):
        page = await admin.get(f"/users?{query}")
        found = re.findall(r'<th scope="row"><a[^>]*>([^<]*)', page.text)
        assert sorted(found) == sorted(names), query
        assert f"{len(names)} user" in page.text, query
    page = await admin.get("/users?state=active&search=grace")
    assert '<option selected value="active">' in page.text
    assert "state%3Dactive" in page.text, "and back to it from the page of a user"


async def renewal(admin: Visitor) -> tuple[str, dict[str, str]]:
    """The second page of the invitations, and the form that renews the first one of it."""
    page = (await admin.get("/users/invitations?page=2")).text
    form = page.partition('action="/dashboard/users/invitations/renew"')[2].partition("</form>")[0]
    return page, dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))


async def test_who_renews_or_revokes_an_invitation_is_back_on_its_page(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await invited(api, 27)
    at = "/dashboard/users/invitations?page=2"
    page, renews = await renewal(admin)
    (asks, *_) = re.findall(r'href="/dashboard(/users/invitations/revoke[^"]*)"', page)
    fields = dict(parse_qsl(unescape(asks).partition("?")[2]))
    assert f'href="{at}" autofocus data-close>Cancel' in (await admin.get(unescape(asks))).text
    handed = await admin.made("/users/invitations/renew", **renews)
    assert f'href="{at}"' in handed.text
    api.live.has_mail_server = True
    _, renews = await renewal(admin)
    renewed = await admin.post("/users/invitations/renew", **renews)
    assert renewed.headers["location"] == f"{at}&done=invited"
    revoked = await admin.post("/users/invitations/revoke", **fields)
    assert revoked.headers["location"] == f"{at}&done=invitation-revoked"


async def test_clients_come_in_pages_the_newest_first(api: Api) -> None:
    _, somebody = await signed_in(api, "admin")
    for number in range(27):
        wanted = Registration(f"Shop {number}", ["https://shop.example/callback"], "")
        await register_client(api.sandbox, None, wanted, public=True, by=OPERATOR)
    first = await somebody.get("/sandbox/clients")
    names = [row.partition(" client_")[0] for row in rows(first)]
    assert names == [f"Shop {number}" for number in range(26, 1, -1)]
    assert 'rel="next" href="/dashboard/sandbox/clients?page=2"' in first.text
    second = await somebody.get("/sandbox/clients?page=2")
    assert [row.partition(" client_")[0] for row in rows(second)] == ["Shop 1", "Shop 0"]
    assert 'rel="next"' not in second.text
    assert rows(await somebody.get("/clients")) == [], "the live ones are others"


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/users", "search=nobody"),
        ("/keys/all", "search=nobody"),
        ("/keys/all", "unused=90"),
        ("/keys/all", "id=99"),
        ("/audit", "user=nobody@example.com"),
        ("/audit", "from=someday"),
        ("/events", "type=sandbox.reset"),
        ("/products", "search=nothing"),
    ],
)
async def test_a_list_that_shows_nothing_of_what_there_is_leads_to_all(
    api: Api, path: str, query: str
) -> None:
    _, admin = await signed_in(api, "admin")
    page = await admin.get(f"{path}?{query}")
    assert rows(page) == []
    assert f'<a class="button" href="/dashboard{path}">Show all</a>' in page.text
    assert "Show all" not in (await admin.get(path)).text


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/users", "search=grace"),
        ("/users", "role=admin"),
        ("/users", "state=active"),
        ("/keys/all", "search=grace"),
        ("/keys/all", "unused=ever"),
        ("/keys/all", "id=1"),
        ("/audit", "action=user.created"),
        ("/events", "type=user.created"),
        ("/products", "search=lamp"),
        ("/products", "stock=no"),
    ],
)
async def test_a_list_that_shows_some_of_what_there_is_leads_to_all(
    api: Api, path: str, query: str
) -> None:
    boss, admin = await signed_in(api, "admin", name="Grace Hopper")
    client = await api.caller(user=boss)
    lamp = {"name": "Lamp", "category": "light", "price": 1}
    person = {"name": "Alan Turing", "email": "alan@example.com", "password": PASSWORD}
    assert (await client.post("/products", json=lamp)).status_code == 201
    assert (await client.post("/users", json={**person, "role": "admin"})).status_code == 201
    clear = f'<a class="button" id="clear" href="/dashboard{path}"'
    page = await admin.get(f"{path}?{query}")
    assert rows(page)
    assert f"{clear}>Clear</a>" in page.text
    assert f"{clear} hidden>Clear</a>" in (await admin.get(path)).text
