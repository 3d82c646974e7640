"""A secret that is made on a page is shown on another, once."""

import asyncio
import re
from os import urandom

import httpx
import pytest

from driving import Api
from pages.visiting import PASSWORD, Visitor, once_of, signed_in, visitor
from portico.core.audit import OPERATOR
from portico.core.times import SECOND
from portico.data.vault import Vault
from portico.features.signin.service import sign_out_everywhere
from portico.features.signin.sessions import FRESH
from portico.web.pages.sent_once import AGAIN, WAITS

SECRET = re.compile(r'<code id="secret">(\S+?)</code>')
KEY = {"name": "One", "type": "live", "expiry": "never"}


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Either engine."""
    return each_database


async def key_page(somebody: Visitor) -> str:
    """The path of the page that shows a new key."""
    answer = await somebody.post("/keys/new", **KEY)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].removeprefix("/dashboard")


async def test_reloaded_secret_page_is_gone_and_makes_no_other_secret(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    where = await key_page(admin)
    page = await admin.get(where)
    (secret,) = SECRET.findall(page.text)
    assert secret not in where
    api.clock.advance(milliseconds=AGAIN)
    async with api.unchanged():
        again = await admin.get(where)
        assert again.status_code == 410
        assert "shown only once" in again.text
        assert secret not in again.text


async def one_secret(somebody: Visitor, answers: list[httpx.Response]) -> str:
    """The secret that all these answers lead to."""
    (where,) = {answer.headers.get("location", answer.text) for answer in answers}
    pages = [await somebody.get(where.removeprefix("/dashboard")) for _ in answers]
    assert [page.status_code for page in pages] == [200] * len(answers)
    (secret,) = {text for page in pages for text in SECRET.findall(page.text)}
    return str(secret)


@pytest.mark.one_engine
async def test_form_repeated_after_step_up_leads_to_one_secret(
    api: Api,
) -> None:
    _, somebody = await signed_in(api)
    api.clock.advance(milliseconds=FRESH)
    once = once_of(await somebody.get("/keys/new"), "/keys/new")
    asked = await somebody.post("/keys/new", **KEY, once=once)
    (token,) = re.findall(r'name="step_up" value="([^"]+)"', asked.text)
    sent = {**KEY, "once": once, "step_up": token, "current_password": PASSWORD}
    other = await somebody.post("/keys/new", **KEY, once=once)  # in another tab
    (second,) = re.findall(r'name="step_up" value="([^"]+)"', other.text)
    answers = [await somebody.post("/keys/new", **sent) for _ in range(2)]
    answers.append(await somebody.post("/keys/new", **sent | {"step_up": second}))
    answers.append(await somebody.post("/keys/new", **KEY, once=once))
    await one_secret(somebody, answers)
    stolen = await somebody.post("/keys/new", **sent | {"once": ""})
    assert stolen.status_code == 409


async def test_secret_page_is_shown_to_one_of_many_concurrent_sessions(api: Api) -> None:
    user, somebody = await signed_in(api)
    path = await key_page(somebody)
    others = [await visitor(api, user) for _ in range(4)]
    address = f"https://localhost:8443/dashboard{path}"
    clients = [one.client for one in (somebody, *others)]
    beside = api.beside()
    there = [
        beside.stranger(cookie=f"__Host-session={here.cookies['__Host-session']}")
        for here in clients
    ]
    answers = await asyncio.gather(*(client.get(address) for client in clients * 2 + there * 2))
    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [200] * 4 + [410] * 16
    by_session = [statuses[first::5] for first in range(5)]
    assert [200] * 4 in by_session, "the session that came first sees it, however often it asks"


@pytest.mark.one_engine
async def test_secret_page_can_be_repeated_shortly_by_its_session_alone(api: Api) -> None:
    user, somebody = await signed_in(api)
    other = await visitor(api, user)
    path = await key_page(somebody)
    address = f"https://localhost:8443/dashboard{path}"
    assert (await somebody.client.head(address)).status_code == 410, "and is not used up by it"
    first = await somebody.get(path)
    api.clock.advance(milliseconds=AGAIN - 1)
    assert (await somebody.get(path)).text == first.text
    assert (await other.get(path)).status_code == 410
    api.clock.advance(milliseconds=1)
    assert (await somebody.get(path)).status_code == 410, "another look makes it stay no longer"


@pytest.mark.one_engine
async def test_secret_page_of_another_account_is_gone_and_stays_unused(api: Api) -> None:
    _, somebody = await signed_in(api)
    _, other = await signed_in(api, "admin")
    path = await key_page(somebody)
    for tried in (path, path[:-1], "/once?page=", "/once", "/once?page=%00"):
        assert (await other.get(tried)).status_code == 410
    assert (await somebody.get(f"/sandbox{path}")).status_code == 200


async def test_secret_page_is_sealed_in_the_database(api: Api) -> None:
    user, somebody = await signed_in(api)
    token = (await key_page(somebody)).partition("page=")[2]
    ((token_hash, page),) = await api.live.db.all("SELECT token_hash, page FROM shown_once")
    assert b"sk_live_" not in bytes(page)
    assert token.encode() not in bytes(token_hash)
    name = f"shown once to {user.id}"
    assert b"sk_live_" in (Vault(lambda: [token.encode()], urandom).open(bytes(page), name) or b"")
    assert api.live[Vault].open(bytes(page), name) is None


@pytest.mark.one_engine
async def test_secret_page_waits_for_five_minutes_and_survives_a_new_sign_in(api: Api) -> None:
    assert WAITS == 300 * SECOND
    for waited, status in ((WAITS - 1, 200), (WAITS, 410)):
        user, somebody = await signed_in(api)
        path = await key_page(somebody)
        await sign_out_everywhere(api.live, user.id, OPERATOR)
        assert "next=%2Fdashboard%2Fonce" in (await somebody.get(path)).headers["location"]
        api.clock.advance(milliseconds=waited)
        assert (await (await visitor(api, user)).get(path)).status_code == status
