"""What ends a credential ends it for the very next request: which event which kinds (decisions §5).

Every credential is used before, so that whatever is kept of it in memory is there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import pytest

from driving import BASE, Api, Caller, refused
from operating import eventually
from owned import grants_of, sessions_of
from portico.domain.audit import OPERATOR
from portico.domain.users import User
from portico.services.api_keys import revoke_key
from portico.services.clients import Registered, delete_client
from portico.services.passwords import Passwords
from portico.services.sign_out import end_grant, end_session, sign_out_everywhere
from portico.services.suspension import resume, suspend
from portico.services.tokens import Pair
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

NEW = "An0therword"


@dataclass
class Held:
    """One user, and one of each credential that a user can have."""

    api: Api
    user: User
    caller: Caller
    shop: Registered
    session: str
    other_session: str
    login: Pair
    grant: Pair
    code: str

    @classmethod
    async def by_new_user(cls, api: Api) -> "Held":
        """A new editor's."""
        user = await api.account("editor", password=PASSWORD)
        shop = await client_of(api.live)
        held = cls(
            api=api,
            user=user,
            caller=await api.caller(user=user),
            shop=shop,
            session=await session_of(api.live, user),
            other_session=await session_of(api.live, user),
            login=await login_of(api.live, user),
            grant=await tokens_of(api.live, shop.client, user, "read:products write:products"),
            code=await code_of(api.live, shop.client, user),
        )
        for answer in await held.calls():
            assert answer.status_code == 200, answer.text
        return held

    async def calls(self) -> list[httpx.Response]:
        """What each credential that opens the API is answered."""
        visitor = Visitor(self.api)
        return [
            await self.caller.get("/users/me"),
            await visitor.me(cookie=self.session),
            await visitor.me(cookie=self.other_session),
            await visitor.me(self.login.access_token),
            await visitor.me(self.grant.access_token),
        ]

    async def living(self) -> set[str]:
        """The names of those credentials that still hold; those of one use are used by this."""
        answers = await self.calls()
        key, session, other, jwt, access = [one.status_code == 200 for one in answers]
        assert all(one.status_code in (200, 401) for one in answers)
        visitor = Visitor(self.api)
        refreshed = await visitor.refresh(self.login.refresh_token)
        renewed = await visitor.renew(self.shop, self.grant.refresh_token)
        exchanged = await visitor.exchange(self.shop, self.code)
        known = await self.api.live.clients.by_client_id(self.shop.client.client_id)
        refusal = 400 if known else 401
        for answer, status in ((refreshed, 401), (renewed, refusal), (exchanged, refusal)):
            assert answer.status_code in (200, status), answer.text
        facts = {
            "key": key,
            "session": session,
            "other session": other,
            "jwt": jwt,
            "refresh": refreshed.status_code == 200,
            "oauth": access,
            "oauth refresh": renewed.status_code == 200,
            "code": exchanged.status_code == 200,
        }
        return {name for name, holds in facts.items() if holds}


KEYS = {"key"}
SESSIONS = {"session", "other session"}
LOGIN = {"jwt", "refresh"}
GRANT = {"oauth", "oauth refresh"}
EVERYTHING = KEYS | SESSIONS | LOGIN | GRANT | {"code"}

Event = Callable[[Held], Awaitable[object]]


async def sign_out(held: Held) -> None:
    answer = await Visitor(held.api).send("DELETE", f"{BASE['live']}/sessions", cookie=held.session)
    assert answer.status_code == 204


async def replace_the_session(held: Held) -> None:
    answer = await Visitor(held.api).open_session(held.user.email, cookie=held.session)
    assert answer.status_code == 201


async def end_one_session(held: Held) -> None:
    newest, _ = await sessions_of(held.api.live, held.user.id, held.api.clock())
    await end_session(held.api.live, newest.id, OPERATOR)


async def end_the_login(held: Held) -> None:
    grants = await grants_of(held.api.live, held.user.id, held.api.clock())
    (login,) = [grant for grant in grants if grant.client_row_id is None]
    await end_grant(held.api.live, login.id, OPERATOR)


async def end_the_consent(held: Held) -> None:
    grants = await grants_of(held.api.live, held.user.id, held.api.clock())
    (consent,) = [grant for grant in grants if grant.client_row_id is not None]
    await end_grant(held.api.live, consent.id, OPERATOR)


async def revoke_the_access_token(held: Held) -> None:
    await _revoke(held, held.grant.access_token)


async def revoke_the_refresh_token(held: Held) -> None:
    await _revoke(held, held.grant.refresh_token)


async def _revoke(held: Held, token: str) -> None:
    client = held.shop.client.client_id, held.shop.secret or ""
    answer = await Visitor(held.api).form("revoke", {"token": token}, basic=client)
    assert answer.status_code == 200


async def everywhere(held: Held) -> None:
    await sign_out_everywhere(held.api.live, held.user.id, OPERATOR)


async def change_the_password_by_session(held: Held) -> None:
    body = {"password": NEW, "current_password": PASSWORD}
    url = f"{BASE['live']}/users/me"
    answer = await Visitor(held.api).send("PATCH", url, body, cookie=held.session)
    assert answer.status_code == 200


async def change_the_password_by_jwt(held: Held) -> None:
    body = {"password": NEW, "current_password": PASSWORD}
    url = f"{BASE['live']}/users/me"
    answer = await Visitor(held.api).send("PATCH", url, body, bearer=held.login.access_token)
    assert answer.status_code == 200


async def have_an_admin_change_the_password(held: Held) -> None:
    admin = await held.api.caller("admin")
    answer = await admin.patch(f"/users/{held.user.id}", json={"password": NEW})
    assert answer.status_code == 200


async def delete_the_user(held: Held) -> None:
    admin = await held.api.caller("admin")
    assert (await admin.delete(f"/users/{held.user.id}")).status_code == 204


async def suspend_the_user(held: Held) -> None:
    await suspend(held.api.live, held.user.id, OPERATOR)


async def suspend_and_resume_the_user(held: Held) -> None:
    await suspend_the_user(held)
    await resume(held.api.live, held.user.id, OPERATOR)


async def delete_the_client(held: Held) -> None:
    await delete_client(held.api.live, held.shop.client.id, by=OPERATOR)


async def revoke_the_key(held: Held) -> None:
    await revoke_key(held.api.live, held.caller.record.id, OPERATOR)


async def rotate_the_signing_key(held: Held) -> None:
    await held.api.live.signer.rotate(OPERATOR, at_once=True)


async def do_nothing(_: Held) -> None:
    pass


EVENTS: list[tuple[Event, set[str]]] = [
    (do_nothing, set()),
    (sign_out, {"session"}),
    (replace_the_session, {"session"}),
    (end_one_session, {"other session"}),
    (end_the_login, LOGIN),
    (end_the_consent, GRANT),
    (revoke_the_access_token, {"oauth"}),
    (revoke_the_refresh_token, GRANT),
    (everywhere, EVERYTHING - KEYS),
    (change_the_password_by_session, EVERYTHING - KEYS - {"session"}),
    (change_the_password_by_jwt, EVERYTHING - KEYS),
    (have_an_admin_change_the_password, EVERYTHING - KEYS),
    (delete_the_user, EVERYTHING),
    (suspend_the_user, EVERYTHING),
    (suspend_and_resume_the_user, EVERYTHING - KEYS),
    (delete_the_client, {*GRANT, "code"}),
    (revoke_the_key, KEYS),
    (rotate_the_signing_key, {"jwt"}),
]


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
