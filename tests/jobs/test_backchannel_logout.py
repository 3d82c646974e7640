"""Clients are told of ended sessions (OpenID Connect Back-Channel Logout 1.0)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from authorizing import CONSENT, Person, address, exchanged, query, told
from driving import BASE, Api
from jobs.conftest import FAULT
from operating import eventually
from portico.core.audit import OPERATOR
from portico.core.oauth import Client
from portico.core.times import SECOND
from portico.data.queue import DELIVERIES as RETRIES
from portico.features.access.backchannel import LOGOUT_EVENT
from portico.features.access.clients import (
    Registered,
    Registration,
    change_client,
    delete_client,
    register_client,
)
from portico.features.mail.storage import Mails
from portico.features.people.accounts import suspend
from portico.features.signin.service import end_application, end_session, sign_out_everywhere
from receiving import OK, Receiver, receiving
from signing_in import AUTH, CALLBACK, PASSWORD, read

LEFT = "SELECT client_row_id, attempts, next_attempt_at FROM logouts ORDER BY id"


class Shop:
    """A client, and the server that is told of the ends of its sessions."""

    def __init__(self) -> None:
        self.receiver = Receiver(self._answer)
        self.answer = OK
        self.registered: Registered

    @property
    def client(self) -> Client:
        return self.registered.client

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self.answer)
        await writer.drain()

    @property
    def tokens(self) -> list[str]:
        """The logout tokens that it got."""
        found = []
        for request in self.receiver.requests:
            assert request.headers["content-type"] == "application/x-www-form-urlencoded"
            ((token,),) = parse_qs(request.body.decode(), strict_parsing=True).values()
            found.append(token)
        return found


class Stage:
    """Two clients that are told, and one that is not."""

    def __init__(self, api: Api, shops: list[Shop], untold: Registered) -> None:
        self.api = api
        self.shops = shops
        self.untold = untold

    async def left(self) -> list[tuple[int, int, int]]:
        """The client, the attempts and the next attempt of each logout that is still to be told."""
        return [tuple(row) for row in await self.api.live.db.all(LEFT)]

    async def told(self) -> list[tuple[str, str, str | None]]:
        """Waits until all is told; returns the audience, subject and session of each token."""

        async def all_told() -> bool:
            return not await self.left()

        await eventually(all_told, "all is told")
        claims = [read(token)[1] for shop in self.shops for token in shop.tokens]
        return sorted((one["aud"], one["sub"], one.get("sid")) for one in claims)

    def expected(self, person: Person, *sids: str) -> list[tuple[str, str, str]]:
        """What both clients are told of these sessions."""
        return sorted(
            (shop.client.client_id, str(person.user.id), sid) for shop in self.shops for sid in sids
        )

    def forget(self) -> None:
        """Forgets what was told so far."""
        for shop in self.shops:
            shop.receiver.requests.clear()

    async def sign_in(self, person: Person) -> str:
        """Signs a person in at every client, and returns the session."""
        sids = set()
        for client in (*(shop.registered for shop in self.shops), self.untold):
            CONSENT[person.user.id] = query(client)
            code = told(await person.decide(address(client)))["code"]
            answer = await exchanged(self.api, client, code)
            sids.add(read(answer["id_token"])[1]["sid"])
        (sid,) = sids
        return str(sid)


async def register(api: Api, name: str, uri: str | None) -> Registered:
    wanted = Registration(name, [CALLBACK], "read:products", backchannel_logout_uri=uri)
    return await register_client(api.live, None, wanted, public=False, by=OPERATOR)


@pytest.fixture
async def stage(api: Api) -> AsyncIterator[Stage]:
    await api.account("admin")
    shops = [Shop(), Shop()]
    async with receiving(shops[0].receiver), receiving(shops[1].receiver):
        for number, shop in enumerate(shops):
            uri = f"http://127.0.0.1:{shop.receiver.port}/ended"
            shop.registered = await register(api, f"Shop {number}", uri)
        yield Stage(api, shops, await register(api, "Till", None))


async def person(api: Api) -> Person:
    found = Person(api, await api.account("editor", password=PASSWORD))
    await found.sign_in()
    return found


async def sign_out(_api: Api, ada: Person) -> None:
    assert (await ada.browser.delete(f"{BASE['live']}/sessions")).status_code == 204


async def end_by_client(api: Api, ada: Person) -> None:
    page = await ada.get(f"{AUTH['live']}/end_session")
    csrf = page.text.partition('name="csrf" value="')[2].partition('"')[0]
    answer = await ada.browser.post(
        f"{AUTH['live']}/end_session/confirm",
        data={"csrf": csrf},
        headers={"origin": "https://localhost:8443"},
    )
    assert answer.status_code == 303, api


async def revoke_session(api: Api, ada: Person) -> None:
    sql = "SELECT id FROM sessions WHERE user_id = :id ORDER BY id LIMIT 1"
    row = await api.live.db.one(sql, {"id": ada.user.id})
    assert row
    await end_session(api.live, row[0], OPERATOR)


async def another_signs_in(api: Api, ada: Person) -> None:
    other = Person(api, await api.account("editor", password=PASSWORD))
    other.browser = ada.browser
    await other.sign_in()


async def suspend_them(api: Api, ada: Person) -> None:
    await suspend(api.live, ada.user.id, OPERATOR)


async def delete(api: Api, ada: Person) -> None:
    admin = await api.caller("admin")
    assert (await admin.delete(f"/users/{ada.user.id}")).status_code == 204


async def change_password(api: Api, ada: Person) -> None:
    admin = await api.caller("admin")
    answer = await admin.patch(f"/users/{ada.user.id}", json={"password": "An0therOne"})
    assert answer.status_code == 200


async def end_everything(api: Api, ada: Person) -> None:
    await sign_out_everywhere(api.live, ada.user.id, OPERATOR)


Ending = Callable[[Api, Person], Awaitable[None]]


@pytest.mark.one_engine
@pytest.mark.parametrize("ending", [sign_out, end_by_client, revoke_session, another_signs_in])
async def test_end_of_a_session_is_told_to_the_clients_of_that_session_alone(
    api: Api, stage: Stage, ending: Ending
) -> None:
    ada, grace = await person(api), await person(api)
    elsewhere = Person(api, ada.user)
    await elsewhere.sign_in()
    sid = await stage.sign_in(ada)
    await stage.sign_in(ada)  # each client twice: it is told once
    other = await stage.sign_in(elsewhere)
    await stage.sign_in(grace)
    await ending(api, ada)
    assert await stage.told() == stage.expected(ada, sid)
    stage.forget()
    await sign_out(api, elsewhere)
    assert await stage.told() == stage.expected(ada, other)


@pytest.mark.parametrize("ending", [suspend_them, delete, change_password, end_everything])
async def test_end_of_all_that_a_user_allowed_is_told_for_each_session(
    api: Api, stage: Stage, ending: Ending
) -> None:
    ada, grace = await person(api), await person(api)
    elsewhere = Person(api, ada.user)
    await elsewhere.sign_in()
    sids = await stage.sign_in(ada), await stage.sign_in(elsewhere)
    await stage.sign_in(grace)
    await ending(api, ada)
    assert await stage.told() == stage.expected(ada, *sids)


@pytest.mark.one_engine
async def test_client_that_a_user_ends_is_told_alone(api: Api, stage: Stage) -> None:
    ada = await person(api)
    sid = await stage.sign_in(ada)
    first = stage.shops[0].client
    await end_application(api.live, first.id, ada.user.id, OPERATOR)
    assert await stage.told() == [(first.client_id, str(ada.user.id), sid)]
    stage.forget()
    await sign_out(api, ada)
    assert await stage.told() == stage.expected(ada, sid), "it may not have heard of the first"


@pytest.mark.one_engine
async def test_logout_token_is_signed_and_says_which_session_ended(api: Api, stage: Stage) -> None:
    ada = await person(api)
    sid = await stage.sign_in(ada)
    await sign_out(api, ada)
    await stage.told()
    keys = (await api.stranger().get(f"{AUTH['live']}/.well-known/jwks.json")).json()
    (token,) = stage.shops[0].tokens
    verified = jwt.decode(token, KeySet.import_key_set(keys), algorithms=["RS256"])
    assert verified.header["typ"] == "logout+jwt"
    claims = dict(verified.claims)
    now = api.clock() // SECOND
    assert len(claims.pop("jti")) == 32
    assert claims == {
        "iss": AUTH["live"],
        "aud": stage.shops[0].client.client_id,
        "sub": str(ada.user.id),
        "sid": sid,
        "iat": now,
        "exp": now + 120,
        "events": {LOGOUT_EVENT: {}},
    }
    (other,) = stage.shops[1].tokens
    assert read(other)[1]["jti"] != read(token)[1]["jti"]
    opened = await api.stranger().get(
        f"{BASE['live']}/users/me", headers={"authorization": f"Bearer {token}"}
    )
    assert opened.status_code == 401
    wishes = urlencode({"id_token_hint": token, "post_logout_redirect_uri": CALLBACK})
    hinted = await api.stranger().get(f"{AUTH['live']}/end_session?{wishes}")
    assert hinted.status_code == 400, "it is no ID token"


async def test_client_that_is_down_gets_it_later_and_delays_nobody(api: Api, stage: Stage) -> None:
    down, up = stage.shops
    down.answer = FAULT
    people = [await person(api) for _ in range(3)]
    sids = []
    for ada in people:
        sids.append(await stage.sign_in(ada))
        await sign_out(api, ada)
    await up.receiver.got(3)

    async def tried() -> bool:
        left = await stage.left()
        first, last = (round(RETRIES.waits[0] * by * SECOND) for by in (0.8, 1.2))
        return [one[:2] for one in left] == [(down.client.id, 1)] * 3 and all(
            first <= one[2] - api.clock() <= last for one in left
        )

    await eventually(tried, "each was tried once")
    assert len(down.tokens) == 3
    stage.forget()
    down.answer = OK
    api.clock.advance(seconds=round(RETRIES.waits[0] * 1.2) + 1)
    api.live[Mails].signal.notify()
    subjects = [str(ada.user.id) for ada in people]
    expected = zip([down.client.client_id] * 3, subjects, sids, strict=True)
    assert await stage.told() == sorted(expected)


async def remove_address(api: Api, client: Client) -> None:
    none = {"backchannel_logout_uri": None}
    await change_client(api.live, client.id, none, lambda _: None, by=OPERATOR)


async def remove_client(api: Api, client: Client) -> None:
    await delete_client(api.live, client.id, by=OPERATOR)


@pytest.mark.one_engine
@pytest.mark.parametrize("removal", [remove_address, remove_client])
async def test_client_that_is_gone_is_told_nothing(
    api: Api, stage: Stage, removal: Callable[[Api, Client], Awaitable[None]]
) -> None:
    gone, ada = stage.shops[0], await person(api)
    gone.answer = FAULT
    await stage.sign_in(ada)
    await sign_out(api, ada)
    await stage.shops[1].receiver.got(1)

    async def tried() -> bool:
        return [one[1] for one in await stage.left()] == [1]

    await eventually(tried, "it was tried once")
    await removal(api, gone.client)
    gone.answer = OK
    api.clock.advance(seconds=round(RETRIES.waits[0] * 1.2) + 1)
    api.live[Mails].signal.notify()
    stage.forget()
    assert await stage.told() == []


@pytest.mark.one_engine
async def test_address_is_by_the_rules_of_webhooks(api: Api) -> None:
    admin = await api.caller("admin")
    new: dict[str, Any] = {"name": "Shop", "redirect_uris": [CALLBACK], "scopes": []}
    for uri in (
        "ftp://shop.example/ended",
        "https://10.1.2.3/",
        "https://shop.example/#a",
        "https://a:b@shop.example/",
    ):
        async with api.unchanged():
            answer = await admin.post("/clients", json=new | {"backchannel_logout_uri": uri})
            assert answer.status_code == 422, uri
            (fault,) = answer.json()["error"]["details"]
            assert fault["field"] == "backchannel_logout_uri"
    metadata = await api.stranger().get(f"{AUTH['live']}/.well-known/openid-configuration")
    for name in ("backchannel_logout_supported", "backchannel_logout_session_supported"):
        assert metadata.json()[name] is True
