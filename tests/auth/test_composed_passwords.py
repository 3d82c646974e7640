"""A password is the same however a keyboard composes its letters (RFC 8265)."""

import re
from collections.abc import Awaitable, Callable
from unicodedata import normalize

import httpx
import pytest
from nacl.pwhash import argon2id

from driving import Api
from mail.conftest import Post
from pages.visiting import PASSWORD, Visitor, faults, visitor
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.features.people.invitations import ask_sign_up, invite
from portico.features.people.passwords import ITERATIONS, MEMORY_KIB
from portico.features.people.recovery import give_reset
from portico.features.signin.step_up import FRESH
from signing_in import Visitor as Program

COMPOSED = "Passwört-Ångström-1"
DECOMPOSED = normalize("NFD", COMPOSED)
LONGEST = "ộ" * 124 + "Aa1!"
EMAIL = "grace@example.com"

Spelled = tuple[str, str]


@pytest.fixture(params=[(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)], ids=["NFC", "NFD"])
def spelled(request: pytest.FixtureRequest) -> Spelled:
    """A password as it is chosen, and as it is typed later."""
    chosen: Spelled = request.param
    return chosen


async def _page_sign_in(api: Api, email: str, password: str) -> Visitor:
    somebody = await visitor(api)
    answer = await somebody.send("/sign-in", {"email": email, "password": password})
    assert answer.status_code == 303, answer.text
    await somebody.get("/profile")
    return somebody


async def _log_in(api: Api, user: User, password: str) -> httpx.Response:
    return await Program(api).log_in(user.email, password)


async def _open_session(api: Api, user: User, password: str) -> httpx.Response:
    return await Program(api).open_session(user.email, password)


async def _sign_in_on_a_page(api: Api, user: User, password: str) -> httpx.Response:
    return await (await visitor(api)).send("/sign-in", {"email": user.email, "password": password})


async def _confirm_on_a_page(api: Api, user: User, password: str) -> httpx.Response:
    somebody = await _page_sign_in(api, user.email, password)
    api.clock.advance(milliseconds=FRESH)
    page = await somebody.post("/keys", name="Till", type="live", expiry="90d")
    (waiting,) = re.findall(r'name="step_up" value="([^"]*)"', page.text)
    form = {"name": "Till", "type": "live", "expiry": "90d", "step_up": waiting}
    return await somebody.post("/keys", **form, current_password=password)


async def _ask_for_a_new_email(api: Api, user: User, password: str) -> httpx.Response:
    somebody = await _page_sign_in(api, user.email, password)
    return await somebody.post("/email", email="new@example.com", current_password=password)


async def _change_at_the_api(api: Api, user: User, password: str) -> httpx.Response:
    caller = await api.caller(user=user)
    body = {"email": "new@example.com", "current_password": password}
    return await caller.patch(f"/users/{user.id}", json=body)


@pytest.mark.parametrize(
    "proves",
    [
        _log_in,
        _open_session,
        _sign_in_on_a_page,
        _confirm_on_a_page,
        _ask_for_a_new_email,
        _change_at_the_api,
    ],
)
async def test_password_is_accepted_in_either_unicode_form(
    api: Api,
    spelled: Spelled,
    proves: Callable[[Api, User, str], Awaitable[httpx.Response]],
) -> None:
    chosen, typed = spelled
    user = await api.account("admin", password=chosen)
    answer = await proves(api, user, typed)
    assert answer.status_code in (200, 201, 303), answer.text
    assert not faults(answer)


async def _created_at_the_api(api: Api, password: str) -> httpx.Response:
    admin = await api.caller("admin")
    body = {"name": "Grace", "email": EMAIL, "password": password}
    return await admin.post("/users", json=body)


async def _changed_at_the_api(api: Api, password: str) -> httpx.Response:
    caller = await api.caller(user=await api.account("admin", email=EMAIL, password=PASSWORD))
    body = {"password": password, "current_password": PASSWORD}
    return await caller.patch("/users/me", json=body)


async def _changed_on_a_page(api: Api, password: str) -> httpx.Response:
    await api.account(email=EMAIL, password=PASSWORD)
    somebody = await _page_sign_in(api, EMAIL, PASSWORD)
    return await somebody.post("/password", password=password, current_password=PASSWORD)


async def _reset(api: Api, password: str) -> httpx.Response:
    user = await api.account(email=EMAIL)
    token = (await give_reset(api.live, user.id, OPERATOR)).link.partition("token=")[2]
    return await (await visitor(api)).send("/reset", {"token": token, "password": password})


async def _invited(api: Api, password: str) -> httpx.Response:
    made = await invite(
        api.live, email=EMAIL, role="viewer", plan="free", handed_over=True, by=OPERATOR
    )
    form = {"token": made.link.partition("token=")[2], "name": "Grace", "password": password}
    return await (await visitor(api)).send("/invitation", form)


async def _signed_up(api: Api, password: str) -> httpx.Response:
    api.live.sign_up_role = "viewer"
    await ask_sign_up(api.live, EMAIL, OPERATOR)
    form = {"token": await Post(api).token(), "name": "Grace", "password": password}
    return await (await visitor(api)).send("/invitation", form)


@pytest.mark.parametrize(
    "sets",
    [
        _created_at_the_api,
        _changed_at_the_api,
        _changed_on_a_page,
        _reset,
        _invited,
        _signed_up,
    ],
)
async def test_password_set_in_either_unicode_form_signs_in_by_both(
    api: Api, spelled: Spelled, sets: Callable[[Api, str], Awaitable[httpx.Response]]
) -> None:
    chosen, typed = spelled
    answer = await sets(api, chosen)
    assert answer.status_code in (200, 201, 303), answer.text
    assert (await Program(api).log_in(EMAIL, typed)).status_code == 200


async def test_password_hashed_uncomposed_is_still_accepted_as_typed(api: Api) -> None:
    made = argon2id.str(DECOMPOSED.encode(), ITERATIONS, MEMORY_KIB * 1024)
    user = await api.account(password_hash=made.decode())
    assert (await Program(api).log_in(user.email, DECOMPOSED)).status_code == 200
    assert (await Program(api).log_in(user.email, COMPOSED)).status_code == 401


@pytest.mark.parametrize(("typed", "hashes"), [(COMPOSED, 1), (DECOMPOSED, 2)])
async def test_wrong_password_costs_the_same_for_every_email(
    api: Api, monkeypatch: pytest.MonkeyPatch, typed: str, hashes: int
) -> None:
    known = await api.account(password=PASSWORD)
    without_password = await api.account()
    taken: list[bytes] = []
    real = argon2id.verify

    def verify(password_hash: bytes, password: bytes) -> bool:
        taken.append(password)
        return real(password_hash, password)

    monkeypatch.setattr(argon2id, "verify", verify)
    for email in (known.email, without_password.email, "nobody@example.com"):
        taken.clear()
        assert (await Program(api).log_in(email, typed)).status_code == 401
        assert len(taken) == hashes, email


async def test_length_of_a_password_is_measured_composed(api: Api) -> None:
    assert len(LONGEST) == 128
    typed = normalize("NFD", LONGEST)
    answer = await _created_at_the_api(api, typed)
    assert answer.status_code == 201, answer.text
    assert (await Program(api).log_in(EMAIL, typed)).status_code == 200
    admin = await api.caller("admin")
    body = {"name": "Ada", "email": "ada@example.com", "password": f"{typed}!"}
    refused = await admin.post("/users", json=body)
    assert refused.status_code == 422
    assert "8 to 128" in refused.json()["error"]["details"][0]["message"]
