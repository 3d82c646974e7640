"""The audit log on pages: what filters find, where its ids lead, and the file that it gives."""

import re
from html import unescape
from typing import get_args

import httpx
import pytest

from driving import NOON, Api
from owned import keys_of
from pages.visiting import signed_in
from portico.domain.audit import OPERATOR, Credential
from portico.domain.events.signing_in import SignInRefused
from portico.domain.times import DAY
from portico.pages.filters import code_words, credential_words


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Both engines."""
    return each_database


def told(page: httpx.Response) -> list[str]:
    """The actions that a page shows."""
    return re.findall(r'<th scope="row">[^<]*<small><code>([^<]*)', page.text)


def links(page: httpx.Response) -> dict[str, str]:
    """Where the entries of a page lead, by what the links say."""
    table = page.text.partition("<tbody>")[2].replace("<wbr>", "")
    found = re.findall(r'<a href="([^"]*)">([^<]*)</a>', table)
    return {unescape(text): unescape(link).removeprefix("/dashboard") for link, text in found}


async def noted_at(api: Api, *times: int) -> None:
    """Entries of these times."""
    async with api.live.db.transaction() as tx:
        for at in times:
            await api.live.audit.record(tx, OPERATOR.actor, at, SignInRefused(None))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("product.changed", "Product changed"),
        ("api_key.created", "API key created"),
        ("client.secret_renewed", "OAuth client secret renewed"),
        ("email.verified", "E-mail verified"),
        ("recovery_codes.renewed", "Recovery codes renewed"),
        ("second_factor.asked", "Second factor asked for"),
        ("sign_in", "Sign-in"),
        ("sign_in.refused", "Sign-in refused"),
        ("of_another_release.made", "Of another release made"),
    ],
)
def test_audit_action_has_words(code: str, words: str) -> None:
    assert code_words(code) == words


async def test_audit_filters_find_deeds_of_an_account_and_those_done_to_it(api: Api) -> None:
    boss, admin = await signed_in(api, "admin")
    other, _ = await signed_in(api)
    made = await api.product(name="Lamp")
    fields = {"name": "New", "email": other.email, "role": "viewer", "plan": "pro"}
    await admin.saved(f"/users/{other.id}", **fields)
    await admin.post("/users/suspend", id=other.id)
    await admin.post("/products/delete", id=made.id)

    for named in (other.email, str(other.id)):
        page = await admin.get(f"/audit?user={named}")
        assert told(page) == ["user.suspended", "user.changed", "sign_in"]
        assert '<th scope="row">User suspended<small>' in page.text
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

    ended = ["user.deleted", "user.changed", "user.created"]
    assert told(await admin.get(f"/audit?user={old}")) == ["user.created", *ended]
    for named in (new, str(first)):
        assert told(await admin.get(f"/audit?user={named}")) == ended


@pytest.mark.parametrize(
    ("email", "likewise"),
    [
        ("Groß@example.com", "gROß@example.com"),
        ("Änne@example.com", "ÄNNE@example.com"),
        ("Änne@example.com", "änne@example.com"),
        ("änne@example.com", "ÄNNE@example.com"),
        ("ada@straße.example", "Ada@STRAße.example"),
    ],
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
        assert told(await admin.get(f"/audit?user={typed}")) == ["user.deleted", "user.changed"]


async def test_audit_filter_by_a_word_other_than_an_e_mail_finds_nothing(api: Api) -> None:
    """Entries have it elsewhere: an account is made with a role and a plan."""
    _, admin = await signed_in(api, "admin")
    maker = await api.caller("admin")
    person = {"name": "Grace Hopper", "email": "grace@example.com", "password": "Cobol1959"}
    made = (await maker.post("/users", json={**person, "role": "admin"})).json()["data"]
    await maker.patch(f"/users/{made['id']}", json={"role": "viewer"})
    assert len(told(await admin.get(f"/audit?user={person['email']}"))) == 2
    for words in ("admin", "viewer", "free", "email", "fields"):
        assert told(await admin.get(f"/audit?user={words}")) == [], words


async def test_audit_filter_by_e_mail_of_hundreds_of_accounts_finds_the_latest(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    made = """
INSERT INTO audit (at, action, credential, target, target_id, details)
VALUES (:at, 'user.created', 'command', 'user', :id, '{"email":"again@example.com"}')"""
    async with api.live.db.transaction() as tx:
        await tx.run_many(made, [{"at": number, "id": str(9000 + number)} for number in range(300)])
    page = await admin.get("/audit?user=again@example.com")
    assert told(page) == ["user.created"] * 25
    assert "user 9299" in page.text


async def test_audit_filter_by_e_mail_takes_either_form_of_a_domain(api: Api) -> None:
    await signed_in(api, email="ada@münchen.de")
    _, admin = await signed_in(api, "admin")
    for typed in ("Ada@MÜNCHEN.de", "ada@xn--mnchen-3ya.de"):
        assert told(await admin.get(f"/audit?user={typed}")) == ["sign_in"]


async def test_audit_filter_by_days_includes_the_first_and_the_last(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    begins = NOON - NOON % DAY
    await noted_at(api, begins - 2 * DAY - 1, begins - 2 * DAY, begins - DAY - 1, begins - DAY)
    page = await admin.get("/audit?action=sign_in.refused&from=2026-03-13&to=2026-03-13")
    assert told(page) == ["sign_in.refused"] * 2
    times = re.findall(r'<time datetime="([^"]*)"', page.text)
    assert times == ["2026-03-13T23:59:59Z", "2026-03-13T00:00:00Z"]
    assert len(told(await admin.get("/audit?action=sign_in.refused&from=2026-03-13"))) == 3
    assert len(told(await admin.get("/audit?action=sign_in.refused&to=2026-03-13"))) == 3


async def test_audit_filter_offers_the_actions_that_entries_have(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    await noted_at(api, NOON)
    page = await admin.get("/audit?action=sign_in.refused")
    choices = page.text.partition('id="action"')[2].partition("</select>")[0]
    offered = re.findall(r'<option value="([^"]*)"( selected)?>', choices)
    assert offered[:3] == [("", ""), ("sign_in", ""), ("sign_in.refused", " selected")]
    page = await admin.get("/audit?action=%3Cb%3E")
    assert '<option value="&lt;b&gt;" selected>' in page.text


@pytest.mark.one_engine
async def test_audit_ids_lead_to_pages_of_existing_resources_alone(api: Api) -> None:
    boss, admin = await signed_in(api, "admin")
    other, _ = await signed_in(api)
    lamp, gone = await api.product(name="Lamp"), await api.product(name="Gone")
    await admin.post("/products/delete", id=gone.id)
    editor = await api.caller("editor", user=boss)
    answer = await editor.patch(f"/products/{lamp.id}", json={"name": "New lamp"})
    assert answer.status_code == 200, answer.text
    await admin.post(
        "/clients/new",
        name="Shop",
        redirect_uris="https://a.test/",
        scopes=["read:products"],
        kind="public",
    )
    await admin.post("/webhooks/new", url="https://hooks.test/", types=["user.created"])
    await admin.post("/keys", name="Till", type="live", expiry="90d")
    await admin.post("/users/suspend", id=other.id)

    page = await admin.get("/audit")
    where = links(page)

    [[client]] = [batch async for batch in api.live.clients.batches()]
    key = (await keys_of(api.live, boss.id))[-1]
    expected = {
        boss.email: f"/users/{boss.id}",
        str(boss.id): f"/users/{boss.id}",
        f"user {other.id}": f"/users/{other.id}",
        f"product {lamp.id}": f"/products/{lamp.id}",
        f"client {client.client_id}": f"/clients/{client.id}",
        "webhook 1": "/webhooks/1",
        f"api key {key.id}": f"/keys/all?id={key.id}",
    }
    assert {text: where.get(text) for text in expected} == expected
    assert f"product {gone.id}" in page.text
    assert f"product {gone.id}" not in where
    assert not [text for text in where if text.startswith("Session")]
    for link in where.values():
        assert (await admin.get(link)).status_code == 200, link
    shown = await admin.get(where[f"api key {key.id}"])
    assert "1 key" in shown.text
    assert key.hint in shown.text


@pytest.mark.one_engine
async def test_sandbox_audit_leads_to_users_of_the_sandbox(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    await admin.post("/sandbox/keys", name="Till", type="test", expiry="90d")
    mirror = await api.sandbox.users.by_account(user.id)
    assert mirror is not None
    page = await admin.get("/sandbox/audit?action=key.created")
    assert links(page) == {
        user.email: f"/sandbox/users/{mirror.id}",
        str(mirror.id): f"/sandbox/users/{mirror.id}",
        "api key 1": "/sandbox/keys/all?id=1",
    }


def test_every_kind_of_credential_has_words() -> None:
    for kind in (kind for kinds in get_args(Credential) for kind in get_args(kinds)):
        assert credential_words(kind) != kind
