"""Narrow keys on their page, and everybody's keys on the admins'."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from msgspec import structs

from driving import NOON, Api
from owned import keys_of
from pages.visiting import PASSWORD, Visitor, rows, signed_in
from portico.domain.audit import OPERATOR
from portico.domain.times import DAY
from portico.services.accounts import give_key
from portico.services.api_keys import revoke_key
from portico.services.suspension import suspend
from portico.storage.numbers import skip_ids


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Either engine."""
    return each_database


@pytest.mark.one_engine
async def test_key_has_the_chosen_scopes_and_networks(api: Api) -> None:
    user, somebody = await signed_in(api, "editor")
    page = await somebody.get("/keys")
    offered = re.findall(r'name="scopes" value="(\S+)"', page.text)
    assert offered == ["read:users", "read:products", "write:products"]
    shown = await somebody.made(
        "/keys",
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
    [(None, ["30d", "90d", "365d", "never"]), (1, ["1d"]), (7, ["7d"]), (90, ["30d", "90d"])],
)
async def test_key_lifetimes_are_bounded_by_the_setting(
    api: Api, most: int | None, offered: list[str]
) -> None:
    for env in api.portico.environments:
        env.max_key_days = most
    user, somebody = await signed_in(api)
    for base, key_type in (("", "live"), ("/sandbox", "test")):
        page = await somebody.get(f"{base}/keys")
        assert re.findall(r'<option value="(\w+)"', page.text) == offered
        assert ("In 1 day (maximum)" in page.text) == (most == 1)
        for expiry in offered:
            await somebody.made(f"{base}/keys", name="Key", type=key_type, expiry=expiry)
    mirror = await api.sandbox.users.by_account(user.id)
    assert mirror is not None
    ends = [None if one == "never" else NOON + int(one[:-1]) * DAY for one in offered]
    for env, owner in ((api.live, user), (api.sandbox, mirror)):
        assert [key.expires_at for key in await keys_of(env, owner.id)] == ends
    if most is not None:
        answer = await somebody.post("/keys", name="Key", type="live", expiry="never")
        assert answer.status_code == 422
        for key_type in ("live", "test"):
            made = await give_key(
                api.live, user, name="First", key_type=key_type, expires_at=None, by=OPERATOR
            )
            assert made.key.expires_at == NOON + most * DAY


async def test_key_of_a_suspended_user_is_marked(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    ada, bob = await api.account(name="Ada"), await api.account(name="Bob")
    for owner in (ada, bob):
        await give_key(api.live, owner, name="Key", key_type="live", expires_at=None, by=OPERATOR)
    await suspend(api.live, ada.id, OPERATOR)
    of_bob, of_ada = rows(await admin.get("/keys/all"))
    assert of_ada.startswith("Key Ada Suspended ")
    assert "Suspended" not in of_bob


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "No user has created a key yet."),
        ("search=nobody", "No keys match by name, key, owner or e-mail."),
        ("unused=90", "No keys match this search and filter."),
        ("unused=90&search=nobody", "No keys match this search and filter."),
        ("id=999", "There is no key with this ID. Keys are deleted together with their owner."),
    ],
)
async def test_empty_list_of_keys_says_why(api: Api, query: str, words: str) -> None:
    _, admin = await signed_in(api, "admin")
    page = await admin.get(f"/keys/all?{query}")
    assert f"<p>{words}</p>" in page.text


async def test_key_search_ignores_case_beyond_ascii(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    for name in ("Straße Öst", "Till"):
        await give_key(api.live, user, name=name, key_type="live", expires_at=None, by=OPERATOR)
    for text in ("straße", "STRAßE", "öst", "ÖST"):
        (row,) = rows(await admin.get(f"/keys/all?search={text}"))
        assert row.startswith("Straße Öst")


async def test_admin_finds_and_revokes_keys_of_all_users(api: Api) -> None:
    ada = await api.account("viewer", name="Ada Lovelace", email="ada@example.com")
    bob = await api.account("editor", name="Bob 100%", email="bob@example.com")
    _, admin = await signed_in(api, "admin")
    made = {}
    for owner, name in ((ada, "Export"), (bob, "Import"), (bob, "Till")):
        made[name] = await give_key(
            api.live, owner, name=name, key_type="live", expires_at=None, by=OPERATOR
        )
    async with api.live.db.transaction() as tx:
        await api.live.api_keys.record_use(
            tx, {made["Export"].key.id: NOON - 40 * DAY, made["Import"].key.id: NOON - DAY}
        )

    async def found(query: str) -> list[str]:
        answer = await admin.get(f"/keys/all?{query}")
        assert answer.status_code == 200
        return [row.partition(" ")[0] for row in rows(answer)]

    assert await found("") == ["Till", "Import", "Export"]
    assert await found("search=LOVELACE") == ["Export"]
    assert await found("search=IMPO") == ["Import"]
    assert await found("search=port") == ["Import", "Export"]
    assert await found("search=bob@") == ["Till", "Import"]
    assert await found("search=100%25") == ["Till", "Import"]
    assert await found("search=%25") == ["Till", "Import"]
    assert await found("search=sk_live_") == ["Till", "Import", "Export"]
    assert await found(f"search={made['Import'].secret[-4:]}") == ["Import"]
    assert await found("unused=ever") == ["Till"]
    assert await found("unused=30") == ["Till", "Export"]
    assert await found("unused=90&search=") == ["Till"]
    assert await found("search=nobody") == []
    for odd in ("page=0", "page=x", "page=99999999999", "unused=x", "search=%00"):
        await found(odd)
    number = made["Export"].key.id
    asked = await admin.get(f"/keys/all/revoke?id={number}")
    assert "Revoke Export?" in unescape(asked.text)
    answer = await admin.post("/keys/all/revoke", id=number)
    assert answer.headers["location"] == "/dashboard/keys/all?done=key-revoked"
    stored = await api.live.api_keys.get(number)
    assert stored is not None
    assert stored.revoked_at == NOON
    assert "Revoked" in rows(await admin.get("/keys/all?search=lovelace"))[0]
    assert (await admin.post("/keys/all/revoke", id=999)).status_code == 404
    assert await found("search=lovelace&unused=ever") == []


async def test_key_is_found_by_an_id_beyond_32_bits(api: Api) -> None:
    user, admin = await signed_in(api, "admin")
    for _ in range(3):
        await skip_ids(api.live.db, NOON)
    made = [
        await give_key(api.live, user, name=name, key_type="live", expires_at=None, by=OPERATOR)
        for name in ("Till", "Export")
    ]
    number = made[0].key.id
    assert number > 2**31
    for asked, names in ((number, ["Till"]), (10**18 - 1, []), (0, ["Export", "Till"])):
        found = await admin.get(f"/keys/all?id={asked}")
        assert found.status_code == 200
        assert [row.partition(" ")[0] for row in rows(found)] == names


@pytest.mark.one_engine
async def test_curl_examples_trust_the_local_authority(api: Api) -> None:
    user, somebody = await signed_in(api)
    line = f"curl --cacert {api.settings.data}/tls/ca.pem https://localhost:8443/v1/users/me -H "
    assert line in (await somebody.get("")).text
    far = Visitor(api.stranger("203.0.113.9:50000"))
    await far.send("/sign-in", {"email": user.email, "password": PASSWORD})
    page = await far.get("")
    assert "curl --cacert ca.pem https://localhost:8443/v1/users/me" in page.text
    assert "Examples trust <code>ca.pem</code>" in page.text
    assert str(api.settings.data) not in page.text
    assert line in (await somebody.made("/keys", name="One", type="live", expiry="never")).text
    other = replace(api.settings, tls_cert=Path("/etc/portico/server.pem"))
    assert other.local_authority is None
    assert structs.replace(api.live.addresses, authority=None).curl == "curl"


async def test_ended_keys_are_listed_last(api: Api) -> None:
    user, somebody = await signed_in(api)
    _, admin = await signed_in(api, "admin")
    for number in range(30):
        key, _ = await give_key(
            api.live, user, name=f"Key {number}", key_type="live", expires_at=None, by=OPERATOR
        )
        if number >= 27:
            await revoke_key(api.live, key.id, OPERATOR)
    first = await somebody.get("/keys")
    order = [*range(26, -1, -1), 29, 28, 27]
    assert [row.split(" sk_")[0] for row in rows(first)] == [f"Key {n}" for n in order[:25]]
    assert 'rel="next" href="/dashboard/keys?page=2"' in first.text
    second = await somebody.get("/keys?page=2")
    assert [row.split(" sk_")[0] for row in rows(second)] == [f"Key {n}" for n in order[25:]]
    assert 'rel="prev" href="/dashboard/keys?page=1"' in second.text
    assert 'rel="next"' not in second.text
    assert rows(await somebody.get("/keys?page=3")) == rows(second), "the last page"
    assert re.search(r">27</\w+>", (await somebody.get("")).text)
    theirs = await admin.get(f"/users/{user.id}")
    assert len(rows(theirs)) == 25
    assert "All 30 keys" in theirs.text


@pytest.mark.one_engine
async def test_revoking_a_key_leads_back_to_the_filtered_list(
    api: Api,
) -> None:
    _, admin = await signed_in(api, "admin")
    user = await api.account(name="Grace Hopper")
    await give_key(api.live, user, name="One", key_type="live", expires_at=None, by=OPERATOR)
    found = (await admin.get("/keys/all?search=hopper&unused=ever&page=9")).text
    assert "1 key<" in found, "a page after the last is the last"
    (asks,) = re.findall(r'href="/dashboard(/keys/all/revoke[^"]*)"', found)
    query = "search=hopper&unused=ever&page=1"
    fields = dict(parse_qsl(unescape(asks).partition("?")[2]))
    assert fields["list"] == query
    page = (await admin.get(unescape(asks))).text
    assert f'href="/dashboard/keys/all?{query}"'.replace("&", "&amp;") in page
    done = await admin.post("/keys/all/revoke", **fields)
    assert done.headers["location"] == f"/dashboard/keys/all?{query}&done=key-revoked"
