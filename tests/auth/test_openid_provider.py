"""What clients ask of an OpenID provider beside the plain flow."""

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from authorizing import CONSENT, Person, address, asks_for_consent, query, wants_sign_in
from driving import NOON, Api, refused
from portico.core.users import User
from portico.features.access.clients import Registered
from signing_in import (
    AUTH,
    CALLBACK,
    FORM,
    PASSWORD,
    Visitor,
    code_of,
    oauth_refused,
    read,
)

pytestmark = pytest.mark.one_engine

PROFILE = {
    "name": "Ada Lovelace",
    "preferred_username": "ada@example.com",
    "picture": "https://a.test/ada.png",
    "locale": "fr",
    "updated_at": NOON // 1000,
}
EMAIL = {"email": "ada@example.com", "email_verified": True}
ALWAYS = {"iss", "sub", "aud", "exp", "iat", "sid", "auth_time", "acr", "amr", "at_hash"}


@pytest.fixture
async def ada(api: Api) -> User:
    return await api.account(
        "editor",
        name="Ada Lovelace",
        email="ada@example.com",
        avatar_url="https://a.test/ada.png",
        language="fr",
        email_verified_at=api.clock(),
        password=PASSWORD,
    )


@pytest.mark.parametrize(
    ("scopes", "claims"),
    [
        ("openid", {}),
        ("openid profile", PROFILE),
        ("openid email", EMAIL),
        ("openid profile email read:products", PROFILE | EMAIL),
    ],
)
async def test_id_token_and_userinfo_have_the_claims_of_the_scopes_at_refresh_too(
    api: Api, visitor: Visitor, shop: Registered, ada: User, scopes: str, claims: dict[str, Any]
) -> None:
    code = await code_of(api.live, shop.client, ada, scopes, nonce="n")
    given = (await visitor.exchange(shop, code)).json()
    first = read(given["id_token"])[1]
    assert first.keys() == ALWAYS | claims.keys() | {"nonce"}
    api.clock.advance(seconds=60)
    given = (await visitor.renew(shop, given["refresh_token"])).json()
    again = read(given["id_token"])[1]
    assert again.keys() == ALWAYS | claims.keys(), "without the nonce of another answer"
    assert [again[one] for one in ("sub", "sid", "auth_time")] == [
        first[one] for one in ("sub", "sid", "auth_time")
    ]
    assert {name: again[name] for name in claims} == claims
    for method in ("GET", "POST"):
        url = f"{AUTH['live']}/userinfo"
        info = await visitor.send(method, url, bearer=given["access_token"])
        assert info.headers["cache-control"] == "no-store"
        assert info.json() == {"sub": str(ada.id), **claims}


async def test_userinfo_takes_the_token_in_a_form_once(
    api: Api, visitor: Visitor, shop: Registered, ada: User
) -> None:
    code = await code_of(api.live, shop.client, ada, "openid")
    token = (await visitor.exchange(shop, code)).json()["access_token"]
    answer = await visitor.form("userinfo", {"access_token": token})
    assert answer.json() == {"sub": str(ada.id)}
    header: dict[str, Any] = {"authorization": f"Bearer {token}"}
    assert (await visitor.form("userinfo", {}, **header)).json() == {"sub": str(ada.id)}
    without = await code_of(api.live, shop.client, ada, "profile email")
    other = (await visitor.exchange(shop, without)).json()["access_token"]
    refused(await visitor.form("userinfo", {"access_token": other}), 403, "PERMISSION_DENIED")
    cases: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({"access_token": token}, header),
        ({"access_token": "oat_x"}, {}),
        ({}, {}),
    ]
    for form, more in cases:
        refused(await visitor.form("userinfo", form, **more), 401)
    twice = f"access_token={token}&access_token={token}"
    refused(await visitor.form("userinfo", twice), 401)
    url = f"{AUTH['live']}/userinfo?access_token={token}"
    refused(await visitor.send("POST", url, content_type=FORM), 401)


async def test_form_post_takes_code_or_error_back_by_a_form_of_the_redirect_uri(
    api: Api, shop: Registered, ada: User
) -> None:
    person = Person(api, ada)
    CONSENT[ada.id] = query(shop)
    await person.sign_in()
    asked = address(shop, response_mode="form_post", state='"><script>')
    page = await person.get(asked)
    assert asks_for_consent(page)
    allowed = await person.decide(asked)
    wrong = await person.get(f"{asked}&max_age=x")
    for answer, name in ((allowed, "code"), (wrong, "error")):
        assert answer.status_code == 200
        assert f'<form method="post" action="{CALLBACK}"' in answer.text
        fields = {
            one: unescape(value)
            for one, value in re.findall(r'name="(\w+)" value="([^"]*)"', answer.text)
        }
        assert fields[name]
        assert (fields["state"], fields["iss"]) == ('"><script>', AUTH["live"])


async def test_login_hint_fills_the_email_field_and_nothing_else(
    api: Api, shop: Registered, ada: User
) -> None:
    person = Person(api, ada)
    for hint in ("ada@example.com", '"><b>@x'):
        page = await person.get(wants_sign_in(await person.get(address(shop, login_hint=hint))))
        found = re.search(r'name="email" type="email" value="([^"]*)"', page.text)
        assert found
        assert unescape(found[1]) == hint


async def test_grace_gives_the_last_refresh_another_pair_and_no_older_one(
    api: Api, visitor: Visitor, shop: Registered, ada: User
) -> None:
    api.live.settings = replace(api.live.settings, refresh_grace_seconds=10)

    async def first() -> str:
        code = await code_of(api.live, shop.client, ada)
        return str((await visitor.exchange(shop, code)).json()["refresh_token"])

    token = await first()
    pairs = [(await visitor.renew(shop, token)).json() for _ in range(3)]
    assert len({pair["refresh_token"] for pair in pairs}) == 3
    assert (await visitor.me(pairs[0]["access_token"])).status_code == 200
    api.clock.advance(seconds=1)
    assert (await visitor.renew(shop, pairs[1]["refresh_token"])).status_code == 200
    oauth_refused(await visitor.renew(shop, token), 400, "invalid_grant")
    refused(await visitor.me(pairs[0]["access_token"]), 401)
    late = await first()
    assert (await visitor.renew(shop, late)).status_code == 200
    api.clock.advance(seconds=10)
    oauth_refused(await visitor.renew(shop, late), 400, "invalid_grant")
