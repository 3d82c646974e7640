"""The end-session endpoint (OpenID Connect RP-Initiated Logout 1.0)."""

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from authorizing import CONSENT, ORIGIN, Person, address, exchanged, query, told
from driving import Api
from portico.core.audit import OPERATOR
from portico.features.access.clients import Registered, Registration, register_client
from signing_in import AUTH, CALLBACK, PASSWORD, code_of, login_of

pytestmark = pytest.mark.one_engine

GOODBYE = "https://shop.example/goodbye?from=portico"
END = f"{AUTH['live']}/end_session"
FROM_ELSEWHERE = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}


async def client(api: Api, name: str = "Shop") -> Registered:
    wanted = Registration(name, [CALLBACK], "read:products", post_logout_redirect_uris=[GOODBYE])
    return await register_client(api.live, None, wanted, public=False, by=OPERATOR)


@pytest.fixture
async def shop(api: Api) -> Registered:
    return await client(api)


async def person(api: Api) -> Person:
    found = Person(api, await api.account("editor", password=PASSWORD))
    await found.sign_in()
    return found


async def hint(api: Api, ada: Person, shop: Registered) -> str:
    """The ID token of a sign-in at the shop."""
    CONSENT[ada.user.id] = query(shop)
    code = told(await ada.decide(address(shop)))["code"]
    return str((await exchanged(api, shop, code))["id_token"])


async def is_signed_in(ada: Person) -> bool:
    return (await ada.get("/v1/users/me")).status_code == 200


def asks(answer: httpx.Response) -> bool:
    return answer.status_code == 200 and "Sign out?" in answer.text


async def confirm(ada: Person, page: httpx.Response, **more: str) -> httpx.Response:
    """The form of the page that asks, sent."""
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
    fields = {name: value.replace("&amp;", "&") for name, value in fields.items()}
    return await ada.browser.post(f"{END}/confirm", data={**fields, **more}, headers=ORIGIN)


async def test_hint_of_the_own_session_signs_out_at_once_however_old(
    api: Api, ada: Person, shop: Registered
) -> None:
    known = await hint(api, ada, shop)
    for _ in range(10):
        api.clock.advance(seconds=1_700)
        assert await is_signed_in(ada), "the token has expired long since, the session has not"
    state = "a state & é"
    wishes = {"id_token_hint": known, "post_logout_redirect_uri": GOODBYE, "state": state}
    answer = await ada.get(f"{END}?{urlencode(wishes)}&logout_hint=x&ui_locales=de")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{GOODBYE}&{urlencode({'state': state})}"
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert not await is_signed_in(ada)
    again = await ada.get(f"{END}?{urlencode(wishes)}")
    assert again.headers["location"] == answer.headers["location"], "nothing is left to end"


async def no_hint(_api: Api, _ada: Person, shop: Registered) -> dict[str, str]:
    return {"client_id": shop.client.client_id}


async def of_somebody_else(api: Api, _ada: Person, shop: Registered) -> dict[str, str]:
    return {"id_token_hint": await hint(api, await person(api), shop)}


async def of_another_session(api: Api, ada: Person, shop: Registered) -> dict[str, str]:
    elsewhere = Person(api, ada.user)
    await elsewhere.sign_in()
    return {"id_token_hint": await hint(api, elsewhere, shop)}


async def without_a_session(api: Api, ada: Person, shop: Registered) -> dict[str, str]:
    code = await code_of(api.live, shop.client, ada.user, "openid")
    return {"id_token_hint": (await exchanged(api, shop, code))["id_token"]}


async def forged(api: Api, ada: Person, shop: Registered) -> dict[str, str]:
    known = await hint(api, ada, shop)
    return {"id_token_hint": f"{known[:-8]}AAAAAAAA", "client_id": shop.client.client_id}


Wish = Callable[[Api, Person, Registered], Awaitable[dict[str, str]]]


@pytest.mark.parametrize(
    "wish", [no_hint, of_somebody_else, of_another_session, without_a_session, forged]
)
async def test_without_a_hint_of_the_own_session_a_page_asks(
    api: Api, ada: Person, shop: Registered, wish: Wish
) -> None:
    wishes = {**await wish(api, ada, shop), "post_logout_redirect_uri": GOODBYE, "state": "s"}
    page = await ada.get(f"{END}?{urlencode(wishes)}")
    assert asks(page)
    assert "Shop" in page.text
    assert page.headers["referrer-policy"] == "no-referrer"
    refused = await confirm(ada, page, csrf="of another page")
    assert refused.status_code == 403
    assert await is_signed_in(ada)
    answer = await confirm(ada, page)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{GOODBYE}&state=s")
    assert not await is_signed_in(ada)


async def test_without_anything_the_user_is_asked_and_stays_here(ada: Person) -> None:
    page = await ada.get(END)
    assert asks(page)
    assert (await confirm(ada, page)).headers["location"] == "/auth/sign-in?done=signed-out"
    assert not await is_signed_in(ada)


ELSEWHERE = "https://elsewhere.example/"


@pytest.mark.parametrize(
    "wishes",
    [
        {"post_logout_redirect_uri": ELSEWHERE},
        {"post_logout_redirect_uri": GOODBYE, "client_id": ""},
        {"post_logout_redirect_uri": f"{GOODBYE}&more=x"},
        {"post_logout_redirect_uri": CALLBACK},
        {"post_logout_redirect_uri": GOODBYE, "client_id": "client_unknown"},
        {"post_logout_redirect_uri": GOODBYE, "state": "\0"},
        {"post_logout_redirect_uri": GOODBYE, "state": "s" * 4_097},
    ],
    ids=lambda wishes: "-".join(f"{name}={value[:40]}" for name, value in wishes.items()),
)
async def test_browser_goes_nowhere_that_is_not_registered(
    api: Api, ada: Person, shop: Registered, wishes: dict[str, str]
) -> None:
    asked = urlencode({"client_id": shop.client.client_id, **wishes})
    for who in (ada, Person(api, ada.user)):
        for answer in (
            await who.get(f"{END}?{asked}"),
            await who.browser.post(f"{END}/confirm", data=wishes, headers=ORIGIN),
        ):
            assert answer.status_code == 400, answer.text
            assert "location" not in answer.headers
    assert await is_signed_in(ada)


async def test_hint_of_another_client_or_a_login_is_refused(
    api: Api, ada: Person, shop: Registered
) -> None:
    other = await client(api, "Till")
    login = await login_of(api.live, ada.user)
    wishes: list[dict[str, Any]] = [
        {"id_token_hint": await hint(api, ada, shop), "client_id": other.client.client_id},
        {"id_token_hint": login.access_token},
    ]
    for wish in wishes:
        answer = await ada.get(f"{END}?{urlencode(wish)}")
        assert answer.status_code == 400, answer.text
    twice = await ada.get(f"{END}?client_id={shop.client.client_id}&client_id=b")
    assert twice.status_code == 400
    assert await is_signed_in(ada)


async def test_request_comes_from_another_site_by_get_or_post(
    api: Api, ada: Person, shop: Registered
) -> None:
    known = {"id_token_hint": await hint(api, ada, shop), "state": "s"}
    asked = urlencode({**known, "post_logout_redirect_uri": GOODBYE})
    stranger = Person(api, ada.user)  # whose browser withholds the cookie
    page = await stranger.get(f"{END}?{asked}", **FROM_ELSEWHERE)
    assert 'http-equiv="refresh"' in page.text
    answer = await stranger.browser.post(
        END,
        content=asked,
        headers={
            "content-type": "application/x-www-form-urlencoded",
            "origin": "https://shop.example",
            **FROM_ELSEWHERE,
        },
    )
    assert (answer.status_code, answer.headers["location"]) == (303, f"/auth/end_session?{asked}")
    assert await is_signed_in(ada)
    answer = await ada.get(answer.headers["location"])
    assert answer.headers["location"] == f"{GOODBYE}&state=s"
    assert not await is_signed_in(ada)
