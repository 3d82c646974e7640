"""What ends a credential ends it for the very next request: which event which kinds (decisions §5).

Every credential is used before, so that whatever is kept of it in memory is there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from driving import BASE, Api, refused
from endings import (
    EVENTS,
    EVERYTHING,
    NEW,
    Event,
    Held,
    change_the_password_by_session,
    delete_the_user,
    have_an_admin_change_the_password,
    rotate_the_signing_key,
    suspend_the_user,
)
from operating import eventually
from owned import sessions_of
from portico.domain.audit import OPERATOR
from portico.services.api_keys import revoke_key
from portico.services.passwords import Passwords
from portico.services.sign_out import sign_out_everywhere
from portico.storage.api_keys import ApiKeys
from portico.storage.database import NOTHING, Database, Params, Row
from portico.storage.grants import Grants
from portico.storage.sessions import Sessions
from signing_in import (
    AUTH,
    PASSWORD,
    Visitor,
    client_of,
    code_of,
    login_of,
    oauth_refused,
    session_of,
    tokens_of,
    waits,
)


@pytest.mark.parametrize(
    ("event", "ended"), EVENTS, ids=lambda value: value.__name__ if callable(value) else ""
)
async def test_an_event_ends_exactly_what_it_should(
    api: Api, event: Event, ended: set[str]
) -> None:
    bystander = await Held.by_new_user(api)
    held = await Held.by_new_user(api)
    await event(held)
    assert await held.living() == EVERYTHING - ended
    if event is not rotate_the_signing_key:
        assert await bystander.living() == EVERYTHING


async def test_a_demotion_narrows_every_kind_at_once(api: Api) -> None:
    admin = await api.caller("admin")
    held = await Held.by_new_user(api)
    visitor = Visitor(api)
    lamp = {"name": "Lamp", "category": "light", "price": 1}

    async def writes() -> list[int]:
        url = f"{BASE['live']}/products"
        answers = [
            await held.caller.post("/products", json=lamp),
            await visitor.send("POST", url, lamp, cookie=held.session),
            await visitor.send("POST", url, lamp, bearer=held.login.access_token),
            await visitor.send("POST", url, lamp, bearer=held.grant.access_token),
        ]
        return [answer.status_code for answer in answers]

    assert await writes() == [201] * 4
    await admin.patch(f"/users/{held.user.id}", json={"role": "viewer"})
    assert await writes() == [403] * 4
    await admin.patch(f"/users/{held.user.id}", json={"role": "editor"})
    assert await writes() == [201] * 4


async def test_a_change_of_plan_reaches_every_kind_at_once(api: Api) -> None:
    held = await Held.by_new_user(api)
    async with api.live.db.transaction() as tx:
        await api.live.users.update(tx, msgspec.structs.replace(held.user, plan="pro"))
    assert {one.headers["x-ratelimit-limit"] for one in await held.calls()} == {"100"}


async def test_the_old_password_opens_nothing_any_more(api: Api) -> None:
    held = await Held.by_new_user(api)
    await change_the_password_by_session(held)
    for password, status in ((PASSWORD, 401), (NEW, 200)):
        assert (await Visitor(api).log_in(held.user.email, password)).status_code == status


class Late:
    """A database, of which a row is told only once something else has happened."""

    def __init__(self, db: Database, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self.engine = db.engine
        self._db, self._meanwhile = db, meanwhile

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        row = await self._db.one(sql, params)
        await self._meanwhile()
        return row


@pytest.mark.parametrize("kind", ["key", "session", "jwt", "oauth"])
async def test_what_ends_while_it_is_looked_up_is_not_kept(api: Api, kind: str) -> None:
    """And so ends at the next request, with nothing else that would end what is kept."""
    env, visitor = api.live, Visitor(api)
    user = await api.account("editor")
    caller, cookie = await api.caller(user=user), await session_of(env, user)
    login, shop = await login_of(env, user), await client_of(env)
    token = await tokens_of(env, shop.client, user, "read:users")
    real = {"api_keys": env.api_keys, "sessions": env.sessions, "grants": env.grants}

    async def end() -> None:
        vars(env).update(real)
        if kind == "key":
            await revoke_key(env, caller.record.id, OPERATOR)
        else:
            await sign_out_everywhere(env, user.id, OPERATOR)

    bearers = {"key": caller.key, "jwt": login.access_token, "oauth": token.access_token}

    async def call() -> int:
        shown = {"cookie": cookie} if kind == "session" else {"bearer": bearers[kind]}
        return (await visitor.me(**shown)).status_code

    late: Any = Late(env.db, end)
    vars(env).update(api_keys=ApiKeys(late), sessions=Sessions(late), grants=Grants(late))
    assert await call() == 200
    assert await call() == 401


class Interrupted(Passwords):
    """The real thing, which lets something happen between a check and its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.checked, self.go_on = asyncio.Event(), asyncio.Event()

    async def verify(self, password: str, password_hash: str) -> bool:
        """As it is, but answered later."""
        right = await super().verify(password, password_hash)
        self.checked.set()
        await self.go_on.wait()
        return right


@pytest.mark.parametrize(
    "change", [have_an_admin_change_the_password, delete_the_user, suspend_the_user]
)
@pytest.mark.parametrize("url", [f"{AUTH['live']}/login", f"{BASE['live']}/sessions"])
async def test_a_sign_in_under_way_does_not_outlive_the_password(
    api: Api, change: Event, url: str
) -> None:
    held = await Held.by_new_user(api)
    api.live.passwords = interrupted = Interrupted()
    body = {"email": held.user.email, "password": PASSWORD}
    under_way = asyncio.create_task(Visitor(api).send("POST", url, body))
    await interrupted.checked.wait()
    api.live.passwords = api.portico.passwords
    await change(held)
    interrupted.go_on.set()
    answer = await under_way
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    await interrupted.close()


@pytest.mark.parametrize(
    "change", [change_the_password_by_session, have_an_admin_change_the_password]
)
async def test_a_change_of_the_password_under_way_does_not_outlive_the_one_it_proved(
    api: Api, change: Event
) -> None:
    held = await Held.by_new_user(api)
    api.live.passwords = interrupted = Interrupted()
    body = {"password": "Th1rd-password", "current_password": PASSWORD}
    under_way = asyncio.create_task(held.caller.patch("/users/me", json=body))
    await interrupted.checked.wait()
    api.live.passwords = api.portico.passwords
    await change(held)
    interrupted.go_on.set()
    assert refused(await under_way, 422).keys() == {"current_password"}
    for password, status in ((body["password"], 401), (NEW, 200)):
        assert (await Visitor(api).log_in(held.user.email, password)).status_code == status
    await interrupted.close()


async def test_of_sign_ins_that_replace_one_session_all_succeed_and_it_ends(api: Api) -> None:
    ada = await api.account("editor", password=PASSWORD)
    planted = await session_of(api.live, ada)
    visitor = Visitor(api)
    assert (await visitor.log_in(ada.email)).status_code == 200  # so that the address is known
    answers = await asyncio.gather(
        *(visitor.open_session(ada.email, cookie=planted) for _ in range(10))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.headers["set-cookie"] for answer in answers}) == 10
    assert (await visitor.me(cookie=planted)).status_code == 401
    assert len(await sessions_of(api.live, ada.id, api.clock())) == 10


async def test_an_exchange_and_a_password_change_wait_for_each_other_in_one_order(api: Api) -> None:
    ada = await api.account("editor")
    shop = await client_of(api.live)
    code = await code_of(api.live, shop.client, ada)
    env = api.live
    async with env.db.transaction() as tx:
        await env.users.get(ada.id, tx)
        exchanging = asyncio.create_task(Visitor(api).exchange(shop, code))
        await eventually(lambda: waits(env), "the wait of the exchange")
        await env.grants.revoke_of_user(tx, ada.id, api.clock())
    oauth_refused(await exchanging, 400, "invalid_grant")
    assert (await api.state())["live grants"] == []


async def test_whatever_comes_with_a_password_change_nothing_outlives_it(api: Api) -> None:
    admin = await api.caller("admin")
    for _ in range(4):
        held = await Held.by_new_user(api)
        visitor = Visitor(api)
        codes = [await code_of(api.live, held.shop.client, held.user) for _ in range(8)]
        logins = [await login_of(api.live, held.user) for _ in range(8)]
        grants = [await tokens_of(api.live, held.shop.client, held.user) for _ in range(8)]
        change = admin.patch(f"/users/{held.user.id}", json={"password": NEW})
        answers = await asyncio.gather(
            *(visitor.exchange(held.shop, code) for code in codes[:4]),
            *(visitor.refresh(one.refresh_token) for one in logins[:4]),
            *(visitor.renew(held.shop, one.refresh_token) for one in grants[:4]),
            *(visitor.me(one.access_token) for one in logins),
            change,
            *(visitor.exchange(held.shop, code) for code in codes[4:]),
            *(Visitor(api).refresh(one.refresh_token) for one in logins[4:]),
            *(visitor.renew(held.shop, one.refresh_token) for one in grants[4:]),
        )
        # Nobody waited for another in a ring, which the database would have had to break.
        assert {answer.status_code for answer in answers} <= {200, 400, 401}
        bodies = [answer.json() for answer in answers if answer.status_code == 200]
        issued = [body["access_token"] for body in bodies if "access_token" in body]
        for token in issued:
            assert (await Visitor(api).me(token)).status_code == 401
        for one in (*logins, *grants):
            assert (await Visitor(api).me(one.access_token)).status_code == 401
