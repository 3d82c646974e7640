"""The audit log on pages: what filters find, where its ids lead, and the file that it gives."""

import re
from html import unescape

import httpx
import pytest

from driving import NOON, Api
from pages.visiting import signed_in
from portico.core.audit import OPERATOR
from portico.core.times import DAY
from portico.features.access.storage import Clients
from portico.features.events.audit import Audit
from portico.features.signin.rules import SignInRefused
from signing_in import client_of, tokens_of


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Both engines."""
    return each_database


def told(page: httpx.Response) -> list[str]:
    """The actions that a page shows."""
    return re.findall(r'<th scope="row">(?:<a [^>]*>)?<code>([^<]*)', page.text)


def links(page: httpx.Response) -> dict[str, str]:
    """Where the entries of a page lead, by what the links say."""
    table = page.text.partition("<tbody>")[2].replace("<wbr>", "")
    found = re.findall(r'<a href="([^"]*)">([^<]*)</a>', table)
    return {unescape(text): unescape(link).removeprefix("/dashboard") for link, text in found}


async def noted_at(api: Api, *times: int) -> None:
    """Entries of these times."""
    async with api.live.db.transaction() as tx:
        for at in times:
            await api.live[Audit].record(tx, OPERATOR.actor, at, SignInRefused(None))


async def test_audit_filters_find_deeds_of_an_account_and_those_done_to_it(api: Api) -> None:
    boss, admin = await signed_in(api, "admin")
    other, _ = await signed_in(api)
    made = await api.product(name="Lamp")
    fields = {"name": "New", "email": other.email, "role": "viewer", "plan": "pro"}
    await admin.saved(f"/users/{other.id}/edit", **fields)
    await admin.post("/users/suspend", id=other.id)
    await admin.post("/products/delete", id=made.id)

    for named in (other.email, str(other.id)):
        page = await admin.get(f"/audit?user={named}")
        assert told(page) == ["user.suspended", "user.updated", "sign_in"]
    page = await admin.get(f"/audit?user={boss.id}&action=user.suspended")
    assert told(page) == ["user.suspended"]
    for target in (f"product+{made.id}", f"+Product++{made.id}+"):
        assert told(await admin.get(f"/audit?target={target}")) == ["product.deleted"]
    assert told(await admin.get("/audit?target=api+key+99")) == []
    assert told(await admin.get("/audit?user=nobody@example.com")) == []


async def test_audit_filter_by_e_mail_finds_every_account_that_ever_had_it(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    maker = await api.caller("admin")
    old, new = "two_@example.com", "three@example.com"
    person = {"name": "Grace Hopper", "email": old, "password": "Cobol1959", "role": "viewer"}
    first = (await maker.post("/users", json=person)).json()["data"]["id"]
    await maker.patch(f"/users/{first}", json={"email": new})
    await maker.delete(f"/users/{first}")
    await maker.post("/users", json=person)
    await maker.post("/users", json={**person, "email": "twox@example.com"})

    ended = ["user.deleted", "user.updated", "user.created"]
    assert told(await admin.get(f"/audit?user={old}")) == ["user.created", *ended]
    for named in (new, str(first)):
        assert told(await admin.get(f"/audit?user={named}")) == ended


@pytest.mark.parametrize(
    ("email", "likewise"),
    [("Änne@example.com", "änne@example.com"), ("ada@straße.example", "Ada@STRAße.example")],
)
async def test_audit_filter_by_e_mail_ignores_case_beyond_ascii(
    api: Api, email: str, likewise: str
) -> None:
    _, admin = await signed_in(api, "admin")
    user = await api.account(email=email)
    maker = await api.caller("admin")
    await maker.patch(f"/users/{user.id}", json={"email": "now@example.com"})
    await maker.delete(f"/users/{user.id}")
    for typed in (email, likewise):
        assert told(await admin.get(f"/audit?user={typed}")) == ["user.deleted", "user.updated"]


async def test_audit_filter_by_days_includes_the_first_and_the_last(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    begins = NOON - NOON % DAY
    await noted_at(api, begins - 2 * DAY - 1, begins - 2 * DAY, begins - DAY - 1, begins - DAY)
    path = "/audit?action=sign_in.refused"
    page = await admin.get(f"{path}&from=2026-03-13&to=2026-03-13")
    times = re.findall(r'<time datetime="([^"]*)"', page.text)
    assert times == ["2026-03-13T23:59:59Z", "2026-03-13T00:00:00Z"]
    for end in ("from", "to"):
        assert len(told(await admin.get(f"{path}&{end}=2026-03-13"))) == 3


@pytest.mark.one_engine
async def test_audit_ids_lead_to_pages_of_existing_resources_alone(api: Api) -> None:
    boss, admin = await signed_in(api, "admin")
    other = await api.account()
    gone = await api.product(name="Gone")
    await admin.post("/products/delete", id=gone.id)
    form = {"name": "Shop", "redirect_uris": "https://a.test/", "kind": "public"}
    await admin.post("/clients/new", **form)
    await admin.post("/webhooks/new", url="https://hooks.test/", types=["user.created"])
    await admin.post("/users/suspend", id=other.id)
    page = await admin.get("/audit")
    where = links(page)
    [[client]] = [batch async for batch in api.live[Clients].batches()]
    expected = {
        boss.email: f"/users/{boss.id}",
        f"user {other.id}": f"/users/{other.id}",
        f"client {client.client_id}": f"/clients/{client.id}",
        "webhook 1": "/webhooks/1",
    }
    assert {text: where.get(text) for text in expected} == expected
    assert f"product {gone.id}" in page.text
    assert f"product {gone.id}" not in where
    for link in where.values():
        assert (await admin.get(link)).status_code == 200, link


@pytest.mark.one_engine
async def test_audit_names_the_application_that_acted_for_somebody(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    editor = await api.account("editor")
    shop = (await client_of(api.live, scopes="write:products")).client
    token = (await tokens_of(api.live, shop, editor, "write:products")).access_token
    agent = api.stranger(authorization=f"Bearer {token}")
    await agent.post("/products", json={"name": "Lamp", "category": "light", "price": 1})
    page = await admin.get("/audit?action=product.created")
    assert f"{editor.email}</a> by Shop</td>" in page.text.replace("<wbr>", "")
    [path] = re.findall(r'href="/dashboard(/audit/\d+)"', page.text.partition("<tbody>")[2])
    shown = await admin.get(path)
    link = f'<a href="/dashboard/clients/{shop.id}">Shop</a> <code>{shop.client_id}</code>'
    assert f"<dt>Application</dt><dd>{link}</dd>" in shown.text.replace("\n", "")


@pytest.mark.one_engine
async def test_audit_entry_has_a_page_with_its_details(api: Api) -> None:
    boss, admin = await signed_in(api, "admin")
    other = await api.account()
    caller = await api.caller("admin", user=boss)
    answer = await caller.patch(f"/users/{other.id}/account", json={"plan": "pro"})
    page = await admin.get("/audit?action=user.updated")
    [path] = re.findall(r'href="/dashboard(/audit/\d+)"', page.text.partition("<tbody>")[2])
    shown = await admin.get(path)
    assert "→ pro</dd>" in shown.text
    assert answer.headers["x-request-id"] in shown.text
    for link in (f"/users/{boss.id}", f"/users/{other.id}", f"/keys/{caller.record.id}"):
        assert f'href="/dashboard{link}"' in shown.text, link
    assert "<dt>Application" not in shown.text
    for missing in ("/audit/999999", "/audit/0", f"/sandbox{path}"):
        assert (await admin.get(missing)).status_code == 404, missing
