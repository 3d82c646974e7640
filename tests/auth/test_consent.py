"""What "Allow" grants: nothing that the page of the question has not shown, whatever became of the
role or the application since."""

import re
from dataclasses import replace
from html import unescape
from urllib.parse import urlsplit

import httpx
import pytest

from authorizing import (
    HERE,
    ORIGIN,
    Person,
    address,
    asks_for_consent,
    exchanged,
    shown,
    ticked,
    told,
)
from driving import Api
from owned import set_role
from portico.core.audit import OPERATOR
from portico.features.access.clients import change_client
from portico.web.messages import FORM
from portico.web.pages.html import scope_words
from signing_in import PASSWORD, client_of

pytestmark = pytest.mark.one_engine

ALL = "read:products write:products read:users write:users admin"
WIDER = {"scopes": ALL}


async def person(api: Api, role: str) -> Person:
    """Somebody who is signed in."""
    somebody = Person(api, await api.account(role, password=PASSWORD))
    await api.account("admin")
    await somebody.sign_in()
    return somebody


async def allow(somebody: Person, page: httpx.Response, **more: str | None) -> httpx.Response:
    """Sends a consent page's form, as the browser would but for `more`, where None is left out."""
    csrf = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert csrf, page.text
    form = {**ticked(page), "csrf": csrf[1], "scopes": shown(page), "decision": "allow", **more}
    sent = {name: value for name, value in form.items() if value is not None}
    url = re.findall(r'<form method="post" action="([^"]+)"', page.text)[-1]
    return await somebody.browser.post(HERE + unescape(url), data=sent, headers=ORIGIN)


MORE = {
    "role raised": ("viewer", ALL, ALL),
    "everything of a role that was raised": ("viewer", "admin", "admin"),
    "client widened": ("admin", "read:products", ""),
}


@pytest.mark.parametrize(("role", "registered", "scope"), MORE.values(), ids=MORE)
async def test_consent_to_more_than_the_page_showed_is_asked_again(
    api: Api, role: str, registered: str, scope: str
) -> None:
    shop = await client_of(api.live, scopes=registered)
    ada = await person(api, role)
    page = await ada.get(address(shop, scope=scope))
    assert asks_for_consent(page)
    await set_role(api.live, ada.user.email, "admin", OPERATOR)
    await change_client(api.live, shop.client.id, WIDER, lambda _: None, by=OPERATOR)
    async with api.unchanged():
        again = await allow(ada, page)
        assert again.status_code == 409
        assert "has changed since you opened this page" in again.text
    new = set(shown(again).split()) - set(shown(page).split())
    assert new
    for scope in new:
        assert scope_words(scope) in again.text
        assert scope_words(scope) not in page.text
    code = told(await allow(ada, again))["code"]
    bought = await exchanged(api, shop, code)
    assert set(bought["scope"].split()) == set(shown(again).split())


async def test_consent_after_a_demotion_grants_what_the_role_still_has(api: Api) -> None:
    for scope in (ALL, "admin"):
        shop, ada = await client_of(api.live, scopes=ALL), await person(api, "admin")
        page = await ada.get(address(shop, scope=scope))
        await set_role(api.live, ada.user.email, "viewer", OPERATOR)
        bought = await exchanged(api, shop, told(await allow(ada, page))["code"])
        assert set(bought["scope"].split()) == {"read:products", "read:users"}


async def test_form_with_added_scopes_grants_no_more(api: Api) -> None:
    shop, ada = await client_of(api.live, scopes="read:products"), await person(api, "admin")
    page = await ada.get(address(shop, scope="read:products"))
    answer = await allow(ada, page, scopes=f"openid {ALL} x")
    bought = await exchanged(api, shop, told(answer)["code"])
    assert bought["scope"] == "read:products"


async def test_form_with_fewer_scopes_than_the_page_grants_nothing(api: Api) -> None:
    shop, ada = await client_of(api.live), await person(api, "viewer")
    page = await ada.get(address(shop))
    async with api.unchanged():
        for said in ("", "openid"):
            assert (await allow(ada, page, scopes=said)).status_code == 409


async def test_authorization_request_by_post_from_another_origin_is_shown(api: Api) -> None:
    shop, ada = await client_of(api.live, scopes="read:products"), await person(api, "viewer")
    asked = address(shop, scope="read:products", state="née & co")
    where, _, sent = asked.partition("?")
    async with api.unchanged():
        for origin in ("https://shop.example", "null"):
            headers = {"origin": origin, "content-type": FORM}
            answer = await ada.browser.post(where, content=sent, headers=headers)
            assert answer.status_code == 303
            page = await ada.get(answer.headers["location"])
            assert asks_for_consent(page)
    said = told(await allow(ada, page))
    assert said["state"] == "née & co"
    assert (await exchanged(api, shop, said["code"]))["scope"] == "read:products"


async def test_invalid_authorization_request_by_post_is_refused_as_by_get(api: Api) -> None:
    shop, guest = await client_of(api.live), api.stranger()
    at, *_ = address(shop).partition("?")
    double = f"{urlsplit(address(shop)).query}&scope=openid&scope=email"
    for sent in ("response_type=code", double):
        by_post = await guest.post(at, content=sent, headers={"content-type": FORM})
        twice = await guest.get(HERE + by_post.headers["location"])
        by_get = await guest.get(f"{at}?{sent}")
        assert twice.status_code == by_get.status_code
        assert twice.headers.get("location") == by_get.headers.get("location")
    assert (await guest.post(at, json={})).status_code == 415
    large = await guest.post(at, content=b"state=" + b"x" * 20_000, headers={"content-type": FORM})
    assert large.status_code == 413


@pytest.mark.parametrize(
    ("scope", "status"), [("read:products", 200), ("openid profile email", 403)]
)
async def test_consent_says_that_any_scope_of_the_api_opens_the_profile(
    api: Api, scope: str, status: int
) -> None:
    api.live.settings = replace(api.live.settings, refresh_family_days=1)
    shop, ada = await client_of(api.live, scopes="read:products"), await person(api, "viewer")
    page = await ada.get(address(shop, scope=scope))
    assert "Access ends after 1 day at the latest" in page.text  # OWASP ASVS 5.0, 10.7.2
    is_told = "It will also see your name, e-mail, role and preferences." in page.text
    assert is_told == (status == 200)
    token = (await exchanged(api, shop, told(await allow(ada, page))["code"]))["access_token"]
    answer = await api.stranger(authorization=f"Bearer {token}").get("/users/me")
    assert answer.status_code == status
