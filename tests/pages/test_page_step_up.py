"""What needs a fresh proof: it is asked for, the form is not lost, and it is carried out once."""

import asyncio
import re
from html import unescape
from typing import Any

import httpx
import pytest

from driving import Api
from pages.visiting import PASSWORD, Visitor, faults, said, signed_in
from passkey_device import Authenticator, options_in
from portico.features.people.passwords import Passwords
from portico.features.signin.sessions import FRESH, WAITS
from portico.features.signin.storage import FactorStore
from portico.mounts import ACCOUNT, LIVE, SHOWING

pytestmark = pytest.mark.one_engine


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    """Both engines."""
    return each_database


FORMS: dict[str, dict[str, Any]] = {
    "/keys/new": {"name": "Till", "type": "live", "expiry": "90d"},
    "/sandbox/keys/new": {"name": "Till", "type": "test", "expiry": "90d"},
    "/clients/new": {
        "name": "Shop <i>",
        "redirect_uris": "https://a.test/\nhttps://b.test/",
        "scopes": ["read:products", "read:users"],
        "kind": "confidential",
    },
}


def hidden(page: httpx.Response) -> dict[str, list[str]]:
    """The fields that a page carries without showing them."""
    found: dict[str, list[str]] = {}
    main = page.text.partition("<main")[2]
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', main):
        found.setdefault(name, []).append(unescape(value))
    return found


async def stale(api: Api, role: str = "admin") -> Visitor:
    """Somebody who signed in a while ago, and was seen since."""
    _, somebody = await signed_in(api, role)
    api.clock.advance(milliseconds=FRESH)
    return somebody


async def asked(somebody: Visitor, path: str, **fields: Any) -> dict[str, list[str]]:
    """The form that waits, once its sender was asked who they are."""
    page = await somebody.post(path, **fields)
    assert page.status_code == 200, page.text
    assert "Confirm that it is you" in page.text
    return hidden(page)


@pytest.mark.parametrize("path", FORMS)
async def test_form_is_kept_during_step_up_and_carried_out_after(api: Api, path: str) -> None:
    somebody = await stale(api)
    async with api.unchanged(but="challenges"):
        page = await somebody.post(path, **FORMS[path])
    waiting = hidden(page)
    (field,) = re.findall("<[^>]* autofocus>", page.text)
    assert 'id="current_password"' in field
    assert 'aria-describedby="current_password-hint"' in field
    assert "What you filled in is kept" in page.text
    wanted = {
        name: value if isinstance(value, list) else [value] for name, value in FORMS[path].items()
    }
    assert {name: waiting[name] for name in wanted} == wanted
    assert waiting.keys() - wanted.keys() == {"csrf", "step_up"}
    done = await somebody.send(path, {**waiting, "current_password": PASSWORD})
    assert done.status_code == 303, done.text
    again = await somebody.post("/keys/new", name="Next", type="live", expiry="90d")
    assert again.status_code == 303, "fresh from now on"


async def test_new_passkey_is_kept_during_step_up(api: Api) -> None:
    user, somebody = await signed_in(api)
    first, second = Authenticator(), Authenticator("EdDSA")
    path = "/security/passkey"
    for device, name in ((first, "Laptop"), (second, "Telephone")):
        api.clock.advance(milliseconds=FRESH)
        credential = device.create(options_in(await somebody.get(path)))
        page = await somebody.post(path, name=name, credential=credential)
        form = {"csrf": somebody.csrf, "name": name, "credential": credential}
        form["step_up"] = hidden(page)["step_up"][0]
        wrong = await somebody.send(path, {**form, "current_password": "Wrong-password1"})
        assert hidden(wrong) == hidden(page)
        proof = {"current_password": PASSWORD}
        if device is second:
            proof = {"step_up_passkey": first.get(options_in(page))}
        done = await somebody.send(path, {**form, **proof})
        assert done.status_code == 303, done.text
    kept = (await api.live[FactorStore].of_user(user.id)).passkeys
    assert [passkey.name for passkey in kept] == ["Laptop", "Telephone"]


async def test_step_up_is_asked_after_fifteen_minutes(api: Api) -> None:
    _, somebody = await signed_in(api)
    api.clock.advance(milliseconds=FRESH - 1)
    assert (await somebody.post("/keys/new", **FORMS["/keys/new"])).status_code == 303
    api.clock.advance(milliseconds=1)
    assert "Confirm that it is you" in (await somebody.post("/keys/new", **FORMS["/keys/new"])).text


async def test_step_up_with_a_password_changed_meanwhile_is_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody = await stale(api)
    waiting = await asked(somebody, "/keys/new", **FORMS["/keys/new"])
    passwords = api.live[Passwords]
    other, verify = await passwords.hash("Another-1843"), passwords.verify

    async def meanwhile(password: str, stored: str) -> bool:
        async with api.live.db.transaction() as tx:
            await tx.run("UPDATE users SET password_hash = :other", {"other": other})
        return await verify(password, stored)

    monkeypatch.setattr(passwords, "verify", meanwhile)
    async with api.unchanged(but="users"):
        page = await somebody.send("/keys/new", {**waiting, "current_password": PASSWORD})
    assert page.status_code == 409
    assert await keys(api) == 0


async def keys(api: Api) -> int:
    """How many there are."""
    (row,) = await api.live.db.all("SELECT count(*) FROM api_keys")
    return int(row[0])


async def test_step_up_form_sent_again_is_carried_out_once(api: Api) -> None:
    somebody = await stale(api)
    one = await asked(somebody, "/keys/new", **FORMS["/keys/new"])
    other = await asked(somebody, "/keys/new", **FORMS["/keys/new"])
    sent = {**one, "current_password": PASSWORD}
    assert (await somebody.send("/keys/new", sent)).status_code == 303
    again = await somebody.send("/keys/new", sent)
    assert again.status_code == 409
    assert "already carried out" in said(again)
    assert await keys(api) == 1
    second = await somebody.send("/keys/new", {**other, "current_password": PASSWORD})
    assert second.status_code == 303, "another tab is another form"


async def test_step_up_form_sent_twice_at_once_is_carried_out_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody = await stale(api)
    shown = hidden(await somebody.get("/keys/new"))
    waiting = await asked(somebody, "/keys/new", once=shown["once"][0], **FORMS["/keys/new"])
    passwords, verify = api.live[Passwords], api.live[Passwords].verify

    async def takes_time(password: str, stored: str) -> bool:
        api.clock.advance(milliseconds=40)
        return await verify(password, stored)

    monkeypatch.setattr(passwords, "verify", takes_time)
    sent = {**waiting, "current_password": PASSWORD}
    answers = await asyncio.gather(*(somebody.send("/keys/new", sent) for _ in range(2)))
    assert [answer.status_code for answer in answers] == [303, 303], answers[1].text
    assert await keys(api) == 1


async def test_step_up_token_is_bound_to_its_session_and_expires(api: Api) -> None:
    somebody = await stale(api)
    waiting = await asked(somebody, "/keys/new", **FORMS["/keys/new"])
    _, other = await signed_in(api)
    sent = {**waiting, "csrf": other.csrf, "current_password": PASSWORD}
    assert (await other.send("/keys/new", sent)).status_code == 409
    forged = {**waiting, "step_up": "x", "current_password": PASSWORD}
    assert (await somebody.send("/keys/new", forged)).status_code == 409
    for _ in range(WAITS // FRESH):
        api.clock.advance(milliseconds=FRESH)
        await somebody.get("/keys")
    late = await somebody.send("/keys/new", {**waiting, "current_password": PASSWORD})
    assert late.status_code == 409
    assert await keys(api) == 0


async def test_every_form_that_decides_on_access_needs_step_up(api: Api) -> None:
    needs = {
        page.path
        for page in (*SHOWING, *LIVE, *ACCOUNT)
        if page.method == "POST" and hasattr(page.handler, "__wrapped__")
    }
    assert needs >= {
        *("/keys/new", "/keys/rotate", "/clients/new", "/clients/{id}", "/clients/secret"),
        *("/webhooks/new", "/webhooks/{id}/edit", "/webhooks/secret"),
        *("/users/new", "/users/{id}/edit", "/users/suspend", "/users/delete"),
        *("/users/reset-password", "/users/invitations/new", "/users/invitations/renew"),
        *("/users/reset-second-factor", "/security/app", "/security/rename"),
        *("/security/remove", "/security/recovery-codes"),
    }
    somebody = await stale(api)
    async with api.unchanged(but="challenges"):
        for path in (path.replace("{id}", "1") for path in needs):
            page = await somebody.post(path, id="1")
            assert "Confirm that it is you" in page.text, path
            assert f'action="/dashboard{path}"' in page.text


async def test_step_up_guesses_keep_the_form_and_are_rate_limited(api: Api) -> None:
    somebody = await stale(api)
    waiting = await asked(somebody, "/keys/new", **FORMS["/keys/new"])
    for _ in range(10):
        page = await somebody.send("/keys/new", {**waiting, "current_password": "Wrong-password1"})
        assert page.status_code == 422
        assert "current password" in faults(page)["current_password"]
        assert hidden(page) == waiting
    slowed = await somebody.send("/keys/new", {**waiting, "current_password": PASSWORD})
    assert slowed.status_code == 429
    assert int(slowed.headers["retry-after"]) > 0
    assert hidden(slowed) == waiting
    assert await keys(api) == 0
