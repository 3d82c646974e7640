"""When a user is asked for consent again, and when nobody is."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from authorizing import CONSENT, Person, address, asks_for_consent, exchanged, query, shown, told
from driving import Api
from owned import set_role
from portico.core.audit import OPERATOR
from portico.features.access.clients import Registered, Registration, register_client
from portico.features.access.storage import Grants
from portico.features.signin.service import end_application, sign_out_everywhere
from signing_in import CALLBACK, CHALLENGE, client_of

pytestmark = pytest.mark.one_engine

OTHER = "https://shop.example/other"
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}


async def shop_of(api: Api, **more: Any) -> Registered:
    return await client_of(api.live, redirect_uris=(CALLBACK, OTHER), **more)


async def allow(ada: Person, shop: Registered, **wishes: str) -> httpx.Response:
    CONSENT[ada.user.id] = query(shop, **wishes)
    return await ada.decide(address(shop, **wishes))


async def nothing(api: Api, ada: Person) -> None:
    """Nothing happens."""


async def demote(api: Api, ada: Person) -> None:
    await set_role(api.live, ada.user.email, "viewer", OPERATOR)


async def end_access(api: Api, ada: Person) -> None:
    found = await api.live[Grants].applications(ada.user.id, api.clock(), offset=0, limit=9)
    await end_application(api.live, found.rows[0].client_row_id, ada.user.id, OPERATOR)


async def end_everything(api: Api, ada: Person) -> None:
    await sign_out_everywhere(api.live, ada.user.id, OPERATOR)
    await ada.sign_in()


Meanwhile = Callable[[Api, Person], Awaitable[None]]


@pytest.mark.parametrize(
    ("meanwhile", "wishes", "is_asked"),
    [
        (nothing, {}, False),
        (nothing, {"scope": "openid"}, False),
        (nothing, {"scope": "read:products offline_access"}, False),
        (nothing, {"state": "another", "nonce": "n"}, False),
        (nothing, {"scope": "openid read:products write:products"}, True),
        (nothing, {"scope": "openid email"}, True),
        (nothing, {"redirect_uri": OTHER}, True),
        (nothing, {"resource": "https://localhost:8443/v1/mcp"}, True),
        (nothing, {"prompt": "consent"}, True),
        (demote, {}, True),
        (end_access, {}, True),
        (end_everything, {}, True),
    ],
)
async def test_remembered_consent_never_widens(
    api: Api, ada: Person, meanwhile: Meanwhile, wishes: dict[str, str], *, is_asked: bool
) -> None:
    shop = await shop_of(api)
    await exchanged(api, shop, told(await allow(ada, shop))["code"])
    await meanwhile(api, ada)
    answer = await ada.get(address(shop, **wishes))
    assert asks_for_consent(answer) == is_asked
    if "prompt" not in wishes and "redirect_uri" not in wishes:
        said = told(await ada.get(address(shop, **wishes, prompt="none")))
        assert said.get("error") == ("consent_required" if is_asked else None)
    if not is_asked:
        assert (await exchanged(api, shop, told(answer)["code"]))["scope"]


@pytest.mark.parametrize(
    ("redirect", "public", "first_party", "is_asked"),
    [
        (CALLBACK, False, False, False),
        (CALLBACK, True, False, False),
        ("http://127.0.0.1/cb", True, False, True),
        ("com.example.app:/cb", True, False, True),
        (CALLBACK, True, True, False),
        ("com.example.app:/cb", False, True, False),
    ],
)
async def test_consent_is_remembered_where_no_other_program_can_pose_as_the_client(
    api: Api, ada: Person, redirect: str, *, public: bool, first_party: bool, is_asked: bool
) -> None:
    wanted = Registration("Shop", [redirect], "read:products", first_party=first_party)
    shop = await register_client(api.live, None, wanted, public=public, by=OPERATOR)
    wishes = {"redirect_uri": redirect, **PKCE}
    first = await ada.get(address(shop, **wishes))
    assert asks_for_consent(first) != first_party
    if not first_party:
        assert (await allow(ada, shop, **wishes)).status_code == 303
    assert asks_for_consent(await ada.get(address(shop, **wishes))) == is_asked


async def test_unticked_scope_is_not_granted_and_asked_for_again(api: Api, ada: Person) -> None:
    shop = await shop_of(api)
    wishes = {"scope": "openid read:products write:products"}
    CONSENT[ada.user.id] = query(shop, **wishes)
    page = await ada.get(address(shop, **wishes))
    assert shown(page) == wishes["scope"]
    for boxes, scope in (({"may-read:products": "yes"}, "openid read:products"), ({}, "openid")):
        answer = await ada.decide(address(shop, **wishes, prompt="consent"), boxes=boxes)
        assert (await exchanged(api, shop, told(answer)["code"]))["scope"] == scope
        assert asks_for_consent(await ada.get(address(shop, **wishes)))
    only = {"scope": "read:products", "prompt": "consent"}
    CONSENT[ada.user.id] = query(shop, **only)
    refusal = told(await ada.decide(address(shop, **only), boxes={}))
    assert refusal["error"] == "access_denied"


async def test_silent_request_without_a_session_is_login_required_after_one_more_hop(
    api: Api, ada: Person
) -> None:
    shop = await shop_of(api)
    await allow(ada, shop)
    silent = address(shop, prompt="none")
    stranger = Person(api, ada.user)
    cross = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    hop = await stranger.get(silent, **cross)
    assert 'http-equiv="refresh"' in hop.text
    assert told(await stranger.get(silent))["error"] == "login_required"
    frame = await stranger.get(silent, **{**cross, "sec-fetch-dest": "iframe"})
    assert told(frame)["error"] == "login_required"
