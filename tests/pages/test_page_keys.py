"""Narrow keys on their page, and everybody's keys on the admins'."""

import re
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qsl

import pytest

from driving import NOON, Api
from owned import keys_of
from pages.visiting import rows, signed_in
from portico.core.audit import OPERATOR
from portico.core.times import DAY
from portico.features.access.api_keys import revoke_key
from portico.features.access.storage import ApiKeys
from portico.features.people.accounts import give_key, suspend


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Either engine."""
    return each_database


@pytest.mark.one_engine
async def test_key_has_the_chosen_scopes_and_networks(api: Api) -> None:
    user, somebody = await signed_in(api, "editor")
    page = await somebody.get("/keys/new")
    offered = re.findall(r'name="scopes" value="(\S+)"', page.text)
    assert offered == ["read:users", "read:products", "write:products"]
    shown = await somebody.made(
        "/keys/new",
        name="Till",
        type="live",
        expiry="30d",
        scopes=["read:products", "write:products"],
        networks=" 203.0.113.0/24\r\n2001:DB8::1\r\n",
    )
    assert "read:products, write:products; from 203.0.113.0/24, 2001:db8::1" in shown.text
    assert "<h2>Key “Till”</h2>" in shown.text
    (owned,) = await keys_of(api.live, user.id)
    assert owned.scopes == frozenset({"read:products", "write:products"})
    assert owned.networks == ("203.0.113.0/24", "2001:db8::1")
    (row,) = rows(await somebody.get("/keys"))
    assert "read:products, write:products; from 203.0.113.0/24, 2001:db8::1" in row
    rotated = await somebody.made("/keys/rotate", id=owned.id)
    assert "from 203.0.113.0/24" in rotated.text


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("most", "offered"),
    [(None, ["30d", "90d", "365d", "never"]), (7, ["7d"]), (90, ["30d", "90d"])],
)
async def test_key_lifetimes_are_bounded_by_the_setting(
    api: Api, most: int | None, offered: list[str]
) -> None:
    for env in api.portico.environments:
        env.settings = replace(env.settings, max_key_days=most)
    user, somebody = await signed_in(api)
    page = await somebody.get("/keys/new")
    assert re.findall(r'<option value="(\w+)"', page.text) == offered
    for expiry in offered:
        await somebody.made("/keys/new", name="Key", type="live", expiry=expiry)
    ends = [None if one == "never" else NOON + int(one[:-1]) * DAY for one in offered]
    assert [key.expires_at for key in await keys_of(api.live, user.id)] == ends
    if most is not None:
        answer = await somebody.post("/sandbox/keys/new", name="Key", type="test", expiry="never")
        assert answer.status_code == 422


@pytest.mark.one_engine
async def test_key_has_a_page_for_its_owner_and_admins_alone(api: Api) -> None:
    user, somebody = await signed_in(api)
    await somebody.made(
        "/keys/new", name="Till", type="read", expiry="30d", scopes=["read:products"]
    )
    (key,) = await keys_of(api.live, user.id)
    _, admin = await signed_in(api, "admin")
    _, other = await signed_in(api)
    for visitor, revokes in ((somebody, "/keys/revoke"), (admin, "/keys/all/revoke")):
        page = await visitor.get(f"/keys/{key.id}")
        assert "<dd>read:products</dd>" in page.text
        assert f'href="/dashboard{revokes}?id={key.id}"' in page.text
    for path in (f"/keys/{key.id}", f"/sandbox/keys/{key.id}", "/keys/999"):
        assert (await other.get(path)).status_code == 404, path


async def test_admin_finds_and_revokes_keys_of_all_users(api: Api) -> None:
    ada = await api.account("viewer", name="Ada Straße", email="ada@example.com")
    bob = await api.account("editor", name="Bob 100%", email="bob@example.com")
    _, admin = await signed_in(api, "admin")
    made = {}
    for owner, name in ((ada, "Export"), (bob, "Import"), (bob, "Till")):
        made[name] = await give_key(
            api.live, owner, name=name, key_type="live", expires_at=None, by=OPERATOR
        )
    async with api.live.db.transaction() as tx:
        await api.live[ApiKeys].record_use(
            tx, {made["Export"].key.id: NOON - 40 * DAY, made["Import"].key.id: NOON - DAY}
        )
    await suspend(api.live, ada.id, OPERATOR)
    number = made["Export"].key.id
    for query, names in (
        ("", ["Till", "Import", "Export"]),
        ("search=STRAße", ["Export"]),
        ("search=port", ["Import", "Export"]),
        ("search=bob@", ["Till", "Import"]),
        ("search=%25", ["Till", "Import"]),
        (f"search={made['Import'].secret[-4:]}", ["Import"]),
        ("unused=ever", ["Till"]),
        ("unused=30", ["Till", "Export"]),
        ("unused=90&search=", ["Till"]),
    ):
        answer = await admin.get(f"/keys/all?{query}")
        assert [row.partition(" ")[0] for row in rows(answer)] == names, query
    query = "search=ada&unused=30&page=1"
    found = (await admin.get(f"/keys/all?{query}")).text
    (asks,) = re.findall(r'href="/dashboard(/keys/all/revoke[^"]*)"', found)
    fields = dict(parse_qsl(unescape(asks).partition("?")[2]))
    done = await admin.post("/keys/all/revoke", **fields)
    assert done.headers["location"] == f"/dashboard/keys/all?{query}&done=key-revoked"
    stored = await api.live[ApiKeys].get(number)
    assert stored is not None
    assert stored.revoked_at == NOON
    (row,) = rows(await admin.get("/keys/all?search=ada"))
    assert row.startswith("Export Ada Straße Suspended ")
    assert "Revoked" in row
    assert (await admin.post("/keys/all/revoke", id=999)).status_code == 404


async def test_ended_keys_are_listed_last(api: Api) -> None:
    user, somebody = await signed_in(api)
    for number in range(30):
        key, _ = await give_key(
            api.live, user, name=f"Key {number}", key_type="live", expires_at=None, by=OPERATOR
        )
        if number >= 27:
            await revoke_key(api.live, key.id, OPERATOR)
    order = [*range(26, -1, -1), 29, 28, 27]
    listed = rows(await somebody.get("/keys")) + rows(await somebody.get("/keys?page=2"))
    assert [row.split(" sk_")[0] for row in listed] == [f"Key {n}" for n in order]
