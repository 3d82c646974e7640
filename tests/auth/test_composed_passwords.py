"""A password is the same however a keyboard composes its letters (RFC 8265)."""

import re
from unicodedata import normalize

import pytest
from nacl.pwhash import argon2id

from driving import Api
from mail.conftest import Post
from pages.visiting import PASSWORD, visitor
from portico.core.audit import OPERATOR
from portico.features.people.invitations import ask_sign_up
from portico.features.people.passwords import ITERATIONS, MEMORY_KIB
from portico.features.people.recovery import give_reset
from portico.features.signin.sessions import FRESH
from signing_in import Visitor

pytestmark = pytest.mark.one_engine

COMPOSED = "Passwört-Ångström-1"
DECOMPOSED = normalize("NFD", COMPOSED)
LONGEST = "ộ" * 124 + "Aa1!"
EMAIL = "grace@example.com"


@pytest.mark.parametrize(
    ("chosen", "typed"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)], ids=["NFC", "NFD"]
)
async def test_password_is_accepted_in_either_unicode_form(
    api: Api, chosen: str, typed: str
) -> None:
    user = await api.account("admin", password=chosen)
    assert (await Visitor(api).log_in(user.email, typed)).status_code == 200
    assert (await Visitor(api).open_session(user.email, typed)).status_code == 201
    person = await visitor(api)
    signed_in = await person.send("/sign-in", {"email": user.email, "password": typed})
    assert signed_in.status_code == 303, signed_in.text
    await person.get("/profile")
    api.clock.advance(milliseconds=FRESH)
    form = {"name": "Till", "type": "live", "expiry": "90d"}
    page = await person.post("/keys/new", **form)
    (waiting,) = re.findall(r'name="step_up" value="([^"]*)"', page.text)
    confirmed = await person.post("/keys/new", **form, step_up=waiting, current_password=typed)
    assert confirmed.status_code == 303, confirmed.text
    body = {"password": PASSWORD, "current_password": typed}
    answer = await (await api.caller(user=user)).patch("/users/me", json=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("way", ["created", "changed", "reset", "signed up"])
async def test_password_set_decomposed_signs_in_composed(api: Api, way: str) -> None:
    person, body = await visitor(api), {"password": DECOMPOSED}
    if way == "created":
        admin = await api.caller("admin")
        answer = await admin.post("/users", json={"name": "Grace", "email": EMAIL, **body})
    elif way == "changed":
        user = await api.account("admin", email=EMAIL, password=PASSWORD)
        caller = await api.caller(user=user)
        answer = await caller.patch("/users/me", json={"current_password": PASSWORD, **body})
    elif way == "reset":
        user = await api.account(email=EMAIL)
        token = (await give_reset(api.live, user.id, OPERATOR)).link.partition("token=")[2]
        answer = await person.send("/reset", {"token": token, **body})
    else:
        api.live.sign_up_role = "viewer"
        await ask_sign_up(api.live, EMAIL, OPERATOR)
        form = {"token": await Post(api).token(), "name": "Grace", **body}
        answer = await person.send("/invitation", form)
    assert answer.status_code in (200, 201, 303), answer.text
    assert (await Visitor(api).log_in(EMAIL, COMPOSED)).status_code == 200


async def test_password_hashed_uncomposed_is_still_accepted_as_typed(api: Api) -> None:
    made = argon2id.str(DECOMPOSED.encode(), ITERATIONS, MEMORY_KIB * 1024)
    user = await api.account(password_hash=made.decode())
    assert (await Visitor(api).log_in(user.email, DECOMPOSED)).status_code == 200
    assert (await Visitor(api).log_in(user.email, COMPOSED)).status_code == 401


async def test_length_of_a_password_is_measured_composed(api: Api) -> None:
    assert len(LONGEST) == 128
    typed = normalize("NFD", LONGEST)
    admin = await api.caller("admin")
    body = {"name": "Ada", "email": EMAIL, "password": typed}
    refused = await admin.post("/users", json=body | {"password": f"{typed}!"})
    assert (await admin.post("/users", json=body)).status_code == 201
    assert (await Visitor(api).log_in(EMAIL, typed)).status_code == 200
    assert refused.status_code == 422
    assert "8 to 128" in refused.json()["error"]["details"][0]["message"]
