"""Devices without a browser: a code on one screen, a decision on another, tokens for the first
(RFC 8628)."""

import asyncio
import re
from html import unescape
from typing import Any

import httpx
import pytest

from authorizing import HERE, ORIGIN, Person, ticked
from driving import BASE, Api
from owned import set_role
from portico.core.audit import OPERATOR
from portico.core.errors import Invalid
from portico.core.oauth import DEVICE_CODE
from portico.features.access.clients import Registered, Registration, register_client
from portico.features.access.storage import Grants
from portico.features.people.accounts import suspend
from portico.features.signin.service import sign_out_everywhere
from signing_in import AUTH, PASSWORD, Visitor, named, oauth_refused

PAGE = f"{AUTH['live']}/device"
WRONG = "a code that waits for you"
SCOPES = "openid read:products write:products"


async def device(api: Api, *, public: bool = False, **more: Any) -> Registered:
    """A client for devices."""
    wanted = Registration("Till", (), "read:products write:products", grants=("device_code",))
    wanted = wanted._replace(**more)
    owner = await api.account("admin")
    return await register_client(api.live, owner, wanted, public=public, by=OPERATOR)


async def begin(api: Api, till: Registered, **more: str) -> dict[str, Any]:
    form = {"scope": SCOPES, **named(till), **more}
    answer = await Visitor(api).form("device_authorization", form)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def poll(api: Api, till: Registered, begun: dict[str, Any], **more: str) -> httpx.Response:
    form = {"grant_type": DEVICE_CODE, "device_code": begun["device_code"], **named(till), **more}
    return await Visitor(api).form("token", form)


async def send(person: Person, page: httpx.Response, **fields: str) -> httpx.Response:
    """Sends the last form of a page."""
    csrf = re.findall(r'name="csrf" value="(\w+)"', page.text)[-1]
    url = unescape(re.findall(r'<form method="post" action="([^"]+)"', page.text)[-1])
    shown = dict(re.findall(r'name="(scopes)" value="([^"]*)"', page.text))
    form = {"csrf": csrf, **shown, **fields}
    return await person.browser.post(HERE + url, data=form, headers=ORIGIN)


async def type_code(person: Person, code: str) -> httpx.Response:
    return await send(person, await person.get(PAGE), user_code=code)


async def decide(
    person: Person, code: str, decision: str = "allow", boxes: dict[str, str] | None = None
) -> httpx.Response:
    page = await type_code(person, code)
    assert page.status_code == 200, page.text
    boxes = ticked(page) if boxes is None else boxes
    return await send(person, page, decision=decision, **boxes)


def done(answer: httpx.Response, what: str) -> bool:
    return answer.status_code == 303 and answer.headers["location"].endswith(f"done={what}")


async def test_device_gets_tokens_once_its_user_has_allowed_it(api: Api, ada: Person) -> None:
    till = await device(api, public=True)
    begun = await begin(api, till)
    assert re.fullmatch("[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", begun["user_code"])
    assert (begun["expires_in"], begun["interval"]) == (900, 5)
    assert begun["verification_uri"] == PAGE
    oauth_refused(await poll(api, till, begun), 400, "authorization_pending")
    page = await type_code(ada, begun["user_code"])
    assert begun["user_code"] in page.text
    assert "Till" in page.text
    oauth_refused(await poll(api, till, begun), 400, "slow_down")
    assert done(await send(ada, page, decision="allow", **ticked(page)), "device-allowed")
    answer = (await poll(api, till, begun)).json()
    assert answer["scope"] == SCOPES
    assert answer.keys() >= {"access_token", "refresh_token", "id_token"}
    assert (await Visitor(api).me(answer["access_token"])).json()["data"]["id"] == ada.user.id
    assert (await Visitor(api).renew(till, answer["refresh_token"])).status_code == 200
    oauth_refused(await poll(api, till, begun), 400, "invalid_grant")


@pytest.mark.one_engine
async def test_each_state_has_its_error_and_ends_as_it_should(api: Api, ada: Person) -> None:
    till, other = await device(api), await device(api)
    denied, late, gone = [await begin(api, till) for _ in range(3)]
    assert done(await decide(ada, denied["user_code"], "deny"), "device-denied")
    for _ in range(2):
        oauth_refused(await poll(api, till, denied), 400, "access_denied")
    assert done(await decide(ada, late["user_code"]), "device-allowed")
    async with api.unchanged():
        oauth_refused(await poll(api, other, late), 400, "invalid_grant")
        oauth_refused(await poll(api, till, {"device_code": "odc_x"}), 400, "invalid_grant")
        mcp = f"{BASE['live']}/mcp"
        oauth_refused(await poll(api, till, late, resource=mcp), 400, "invalid_target")
        api.clock.advance(seconds=900)
        for each in (late, gone):
            oauth_refused(await poll(api, till, each), 400, "expired_token")
    assert WRONG in (await type_code(ada, gone["user_code"])).text


@pytest.mark.one_engine
async def test_interval_grows_by_five_seconds_for_each_hasty_request(api: Api) -> None:
    till = await device(api)
    begun = await begin(api, till)
    for seconds, error in (
        (0, "authorization_pending"),
        (4, "slow_down"),
        (9, "slow_down"),
        (15, "authorization_pending"),
        (14, "slow_down"),
        (20, "authorization_pending"),
    ):
        api.clock.advance(seconds=seconds)
        oauth_refused(await poll(api, till, begun), 400, error)


@pytest.mark.one_engine
async def test_code_is_read_however_it_is_typed(api: Api, ada: Person) -> None:
    code = (await begin(api, await device(api)))["user_code"]
    for typed in (code.lower(), code.replace("-", ""), f" {code} "):
        page = await type_code(ada, typed)
        assert (page.status_code, code in page.text) == (200, True)


@pytest.mark.one_engine
async def test_address_with_the_code_only_fills_the_field(api: Api, ada: Person) -> None:
    till = await device(api)
    begun = await begin(api, till)
    stranger = Person(api, ada.user)
    sent = await stranger.get(begun["verification_uri_complete"])
    assert sent.status_code == 303, "to sign in"
    async with api.unchanged():
        for more in ("", "&decision=allow"):
            page = await ada.get(begun["verification_uri_complete"] + more)
            assert f'value="{begun["user_code"]}"' in page.text
            assert "decision" not in page.text
        unseen = await send(ada, page, user_code=begun["user_code"], decision="allow")
        assert unseen.status_code == 409, "the code and the client were not shown"
        again = await send(ada, unseen, decision="allow", scopes="openid", csrf="")
        assert again.status_code == 403
    oauth_refused(await poll(api, till, begun), 400, "authorization_pending")


@pytest.mark.one_engine
async def test_unticked_scope_and_lost_role_are_not_granted(api: Api, ada: Person) -> None:
    till = await device(api)
    for boxes, granted in (
        ({"may-read:products": "yes"}, "openid read:products"),
        ({}, "openid"),
    ):
        begun = await begin(api, till)
        assert done(await decide(ada, begun["user_code"], boxes=boxes), "device-allowed")
        assert (await poll(api, till, begun)).json()["scope"] == granted
    begun = await begin(api, till, scope="write:products")
    nothing = await decide(ada, begun["user_code"], boxes={})
    assert done(nothing, "device-denied")
    demoted = await begin(api, till)
    await decide(ada, demoted["user_code"])
    await set_role(api.live, ada.user.email, "viewer", OPERATOR)
    assert (await poll(api, till, demoted)).json()["scope"] == "openid read:products"
    begun = await begin(api, till, scope="write:products")
    page = await type_code(ada, begun["user_code"])
    assert "gets no access" in page.text
    assert done(await send(ada, page, decision="deny"), "device-denied")


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("public", "first_party", "is_known"),
    [(False, False, True), (True, False, False), (False, True, True)],
)
async def test_known_client_is_shown_with_the_code_but_without_boxes(
    api: Api, ada: Person, *, public: bool, first_party: bool, is_known: bool
) -> None:
    till = await device(api, public=public, first_party=first_party)
    if not first_party:
        await decide(ada, (await begin(api, till))["user_code"])
    begun = await begin(api, till)
    page = await type_code(ada, begun["user_code"])
    assert begun["user_code"] in page.text
    assert ('type="checkbox"' not in page.text) == is_known
    await send(ada, page, decision="allow", **ticked(page))
    assert (await poll(api, till, begun)).json()["scope"] == SCOPES
    begun = await begin(api, till, resource=f"{BASE['live']}/mcp")
    other = await type_code(ada, begun["user_code"])
    assert ('type="checkbox"' in other.text) != first_party
    await send(ada, other, decision="allow", **ticked(other))
    token = (await poll(api, till, begun)).json()["access_token"]
    assert (await Visitor(api).me(token)).status_code == 401, "it is for agents alone"


@pytest.mark.one_engine
async def test_refused_clients_begin_nothing(api: Api) -> None:
    plain = await device(api, grants=(), redirect_uris=("https://shop.example/callback",))
    till = await device(api)
    async with api.unchanged():
        for client, more, error in (
            (plain, {}, "unauthorized_client"),
            (till, {"scope": "admin"}, "invalid_scope"),
            (till, {"resource": "https://x.test"}, "invalid_target"),
        ):
            form = {**named(client), **more}
            answer = await Visitor(api).form("device_authorization", form)
            oauth_refused(answer, 400, error)
        oauth_refused(await poll(api, plain, {"device_code": "odc_x"}), 400, "unauthorized_client")
    oauth_refused(
        await Visitor(api).form("device_authorization", {**named(till), "client_secret": "x"}),
        401,
        "invalid_client",
    )
    with pytest.raises(Invalid):
        await device(api, public=True, first_party=True)
    with pytest.raises(Invalid):
        await device(api, public=True, grants=("device_code", "client_credentials"))


@pytest.mark.one_engine
async def test_eleventh_wrong_code_of_an_account_or_address_must_wait(
    api: Api, ada: Person
) -> None:
    till = await device(api)
    for _ in range(10):
        assert (await type_code(ada, "BBBB-BBBB")).status_code == 422
    begun = await begin(api, till)
    held = await type_code(ada, begun["user_code"])
    assert (held.status_code, held.headers["retry-after"]) == (429, "60")
    grace = Person(api, await api.account("editor", password=PASSWORD))
    await grace.sign_in()
    assert (await type_code(grace, begun["user_code"])).status_code == 429, "the same address"
    api.clock.advance(seconds=61)
    assert done(await decide(ada, begun["user_code"]), "device-allowed")


@pytest.mark.one_engine
async def test_what_was_allowed_ends_with_the_account(api: Api, ada: Person) -> None:
    till = await device(api)
    for end in (sign_out_everywhere, suspend):
        begun = await begin(api, till)
        await ada.sign_in()
        await decide(ada, begun["user_code"])
        await end(api.live, ada.user.id, OPERATOR)
        oauth_refused(await poll(api, till, begun), 400, "invalid_grant")
    assert (await api.live[Grants].count(ada.user.id, api.clock())) == 0


@pytest.mark.one_engine
async def test_one_code_has_one_decision_and_one_redemption_on_two_hosts(
    api: Api, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.leave_turns(monkeypatch)
    till, hosts = await device(api), [api, api.beside()]
    people = [ada]
    for host in hosts:
        people.append(Person(host, await api.account("editor", password=PASSWORD)))
        await people[-1].sign_in()
    for _ in range(3):
        begun = await begin(api, till)
        pages = [await type_code(person, begun["user_code"]) for person in people]
        answers = await asyncio.gather(
            *(
                send(person, page, decision="allow" if number else "deny", **ticked(page))
                for number, (person, page) in enumerate(zip(people, pages, strict=True))
            )
        )
        assert sorted(answer.status_code for answer in answers) == [303, 422, 422]
        (winner,) = [at for at, answer in enumerate(answers) if answer.status_code == 303]
        polls = await asyncio.gather(*(poll(hosts[at % 2], till, begun) for at in range(20)))
        won = [answer.json() for answer in polls if answer.status_code == 200]
        if winner == 0:
            assert won == []
            assert {answer.json()["error"] for answer in polls} == {"access_denied"}
            continue
        (tokens,) = won
        me = await Visitor(api).me(tokens["access_token"])
        assert me.json()["data"]["id"] == people[winner].user.id
        assert {one.json()["error"] for one in polls if one.status_code != 200} == {"invalid_grant"}
