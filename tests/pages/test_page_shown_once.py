"""A secret that is made on a page is shown on another, once."""

import asyncio
import re
from os import urandom

import pytest

from driving import Api
from pages.visiting import Visitor, signed_in, visitor
from portico.domain.audit import OPERATOR
from portico.domain.times import SECOND
from portico.services.shown_once import WAITS
from portico.services.sign_out import sign_out_everywhere
from portico.services.vault import Vault

SECRET = re.compile(r'<code id="secret">(\S+?)</code>')
KEY = {"name": "One", "type": "live", "expiry": "never"}
CLIENT = {"name": "Shop", "kind": "confidential", "redirect_uris": "https://shop.test/"}
HOOK = {"url": "https://hooks.example.com/", "types": "*"}
MADE = [
    ("/keys", KEY, "/keys/rotate"),
    ("/sandbox/keys", {**KEY, "type": "test"}, "/sandbox/keys/rotate"),
    ("/clients/new", CLIENT, "/clients/secret"),
    ("/sandbox/clients/new", CLIENT, "/sandbox/clients/secret"),
    ("/webhooks/new", HOOK, "/webhooks/secret"),
    ("/sandbox/webhooks/new", HOOK, "/sandbox/webhooks/secret"),
]
"""Where secrets are made, and made anew."""


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Either engine."""
    return each_database


async def key_page(somebody: Visitor) -> str:
    """The path of the page that shows a new key."""
    answer = await somebody.post("/keys", **KEY)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].removeprefix("/dashboard")


@pytest.mark.parametrize(("path", "fields", "renewal"), MADE)
async def test_to_load_its_page_again_neither_shows_a_secret_nor_makes_another(
    api: Api, path: str, fields: dict[str, str], renewal: str
) -> None:
    _, admin = await signed_in(api, "admin")
    secrets = set()
    for made in (await admin.post(path, **fields), await admin.post(renewal, id=1)):
        assert made.status_code == 303, made.text
        where = made.headers["location"].removeprefix("/dashboard")
        page = await admin.get(where)
        assert page.status_code == 200
        (secret,) = SECRET.findall(page.text)
        secrets.add(secret)
        assert secret not in where + made.text
        async with api.unchanged():
            for _ in range(2):
                again = await admin.get(where)
                assert again.status_code == 410
                assert "shown already" in again.text
                assert secret not in again.text
    assert len(secrets) == 2


async def test_of_many_visits_in_two_processes_one_sees_the_page(api: Api) -> None:
    _, somebody = await signed_in(api)
    path = await key_page(somebody)
    here = somebody.client
    there = api.beside().stranger(cookie=f"__Host-session={here.cookies['__Host-session']}")
    address = f"https://localhost:8443/dashboard{path}"
    answers = await asyncio.gather(*(client.get(address) for client in [here, there] * 10))
    assert sorted(answer.status_code for answer in answers) == [200] + [410] * 19


async def test_nobody_else_sees_it_or_uses_it_up(api: Api) -> None:
    _, somebody = await signed_in(api)
    _, other = await signed_in(api, "admin")
    path = await key_page(somebody)
    for tried in (path, path[:-1], "/once?page=", "/once", "/once?page=%00"):
        assert (await other.get(tried)).status_code == 410
    assert (await somebody.get(f"/sandbox{path}")).status_code == 200


async def test_to_ask_for_its_headers_uses_nothing_up(api: Api) -> None:
    _, somebody = await signed_in(api)
    path = await key_page(somebody)
    address = f"https://localhost:8443/dashboard{path}"
    assert (await somebody.client.head(address)).status_code == 410
    assert (await somebody.get(path)).status_code == 200


@pytest.mark.parametrize(("waited", "status"), [(WAITS - 1, 200), (WAITS, 410)])
async def test_it_waits_for_five_minutes(api: Api, waited: int, status: int) -> None:
    assert WAITS == 300 * SECOND
    _, somebody = await signed_in(api)
    path = await key_page(somebody)
    api.clock.advance(milliseconds=waited)
    assert (await somebody.get(path)).status_code == status


async def test_a_copy_of_the_database_shows_nothing(api: Api) -> None:
    user, somebody = await signed_in(api)
    token = (await key_page(somebody)).partition("page=")[2]
    ((token_hash, page),) = await api.live.db.all("SELECT token_hash, page FROM shown_once")
    assert b"sk_live_" not in bytes(page)
    assert token.encode() not in bytes(token_hash)
    name = f"shown once to {user.id}"
    assert b"sk_live_" in (Vault(token.encode, urandom).open(bytes(page), name) or b"")
    assert api.live.vault.open(bytes(page), name) is None


async def test_a_host_with_another_installation_secret_shows_it(api: Api) -> None:
    _, somebody = await signed_in(api)
    path = await key_page(somebody)
    api.live.vault = Vault(lambda: b"the secret of another host", urandom)
    assert "sk_live_" in (await somebody.get(path)).text


async def test_a_page_whose_session_has_ended_waits_for_the_next(api: Api) -> None:
    user, somebody = await signed_in(api)
    path = await key_page(somebody)
    await sign_out_everywhere(api.live, user.id, OPERATOR)
    answer = await somebody.get(path)
    assert answer.status_code == 303
    assert "/sign-in?next=%2Fdashboard%2Fonce" in answer.headers["location"]
    assert (await (await visitor(api, user)).get(path)).status_code == 200
