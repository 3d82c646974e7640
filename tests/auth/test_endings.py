"""Endings of credentials: at once, at every entrance, and of no other (decisions §5)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from driving import BASE, Api, refused
from endings import (
    ENDINGS,
    EVERYTHING,
    NEW,
    Credentials,
    Ending,
    change_password_by_admin,
    change_password_by_session,
    delete_user,
    rotate_signing_key,
    suspend_user,
)
from operating import eventually
from portico.core.audit import OPERATOR
from portico.data.database import NOTHING, Database, Params, Row
from portico.features.access.api_keys import revoke_key
from portico.features.access.storage import ApiKeys, Grants
from portico.features.people.passwords import Passwords
from portico.features.people.storage import Users
from portico.features.signin.service import sign_out_everywhere
from portico.features.signin.storage import Sessions
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


@pytest.mark.one_engine
@pytest.mark.parametrize("ending", ENDINGS)
async def test_ending_ends_its_credentials_at_once_and_no_other(api: Api, ending: str) -> None:
    bystander = await Credentials.of_new_user(api)
    held = await Credentials.of_new_user(api)
    end, ended = ENDINGS[ending]
    await end(held)
    assert await held.valid() == EVERYTHING - ended
    if end is not rotate_signing_key:
        assert await bystander.valid() == EVERYTHING


LIFETIMES = {
    "jwt": 3_600_000,
    "oauth": 3_600_000,
    "refresh": 30 * 86_400_000,
    "oauth refresh": 30 * 86_400_000,
    "code": 60_000,
    "session": 1_800_000,
}
"""Milliseconds."""


@pytest.mark.one_engine
@pytest.mark.parametrize("name", LIFETIMES)
async def test_credential_is_valid_until_the_last_millisecond_of_its_lifetime(
    api: Api, name: str
) -> None:
    api.clock.advance(milliseconds=700)
    in_time, late = [await Credentials.of_new_user(api) for _ in range(2)]
    # Clients are told an access token's end in whole seconds.
    api.clock.advance(milliseconds=LIFETIMES[name] - 1 - (700 if name in ("jwt", "oauth") else 0))
    assert name in await in_time.valid()
    api.clock.advance(milliseconds=1)
    assert name not in await late.valid()


class Late:
    """A database, of which a row is told only once something else has happened."""

    def __init__(self, db: Database, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self.engine = db.engine
        self._db, self._meanwhile = db, meanwhile

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        row = await self._db.one(sql, params)
        await self._meanwhile()
        return row


@pytest.mark.one_engine
@pytest.mark.parametrize("kind", ["key", "session", "jwt", "oauth"])
async def test_credential_that_ends_during_its_look_up_is_not_cached(api: Api, kind: str) -> None:
    env, visitor = api.live, Visitor(api)
    user = await api.account("editor")
    caller, cookie = await api.caller(user=user), await session_of(env, user)
    login, shop = await login_of(env, user), await client_of(env)
    token = await tokens_of(env, shop.client, user, "read:users")
    real = env[ApiKeys], env[Sessions], env[Grants]

    async def end() -> None:
        env[ApiKeys], env[Sessions], env[Grants] = real
        if kind == "key":
            await revoke_key(env, caller.record.id, OPERATOR)
        else:
            await sign_out_everywhere(env, user.id, OPERATOR)

    bearers = {"key": caller.key, "jwt": login.access_token, "oauth": token.access_token}

    async def call() -> int:
        shown = {"cookie": cookie} if kind == "session" else {"bearer": bearers[kind]}
        return (await visitor.me(**shown)).status_code

    late: Any = Late(env.db, end)
    env[ApiKeys], env[Sessions], env[Grants] = ApiKeys(late), Sessions(late), Grants(late)
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


@pytest.mark.parametrize("change", [change_password_by_admin, delete_user, suspend_user])
@pytest.mark.parametrize("url", [f"{AUTH['live']}/login", f"{BASE['live']}/sessions"])
async def test_sign_in_under_way_fails_after_the_account_changes(
    api: Api, change: Ending, url: str
) -> None:
    held = await Credentials.of_new_user(api)
    api.live[Passwords] = interrupted = Interrupted()
    body = {"email": held.user.email, "password": PASSWORD}
    under_way = asyncio.create_task(Visitor(api).send("POST", url, body))
    await interrupted.checked.wait()
    api.live[Passwords] = api.portico.passwords
    await change(held)
    interrupted.go_on.set()
    answer = await under_way
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    await interrupted.close()


@pytest.mark.parametrize("change", [change_password_by_session, change_password_by_admin])
async def test_password_change_under_way_fails_after_another_change(
    api: Api, change: Ending
) -> None:
    held = await Credentials.of_new_user(api)
    api.live[Passwords] = interrupted = Interrupted()
    body = {"password": "Th1rd-password", "current_password": PASSWORD}
    under_way = asyncio.create_task(held.caller.patch("/users/me", json=body))
    await interrupted.checked.wait()
    api.live[Passwords] = api.portico.passwords
    await change(held)
    interrupted.go_on.set()
    assert refused(await under_way, 422).keys() == {"current_password"}
    for password, status in ((body["password"], 401), (NEW, 200)):
        assert (await Visitor(api).log_in(held.user.email, password)).status_code == status
    await interrupted.close()


async def test_exchange_waits_for_a_password_change_and_then_fails(api: Api) -> None:
    ada = await api.account("editor")
    shop = await client_of(api.live)
    code = await code_of(api.live, shop.client, ada)
    env = api.live
    async with env.db.transaction() as tx:
        await env[Users].get(ada.id, tx)
        exchanging = asyncio.create_task(Visitor(api).exchange(shop, code))
        await eventually(lambda: waits(env), "the wait of the exchange")
        await env[Grants].revoke_of_user(tx, ada.id, api.clock())
    oauth_refused(await exchanging, 400, "invalid_grant")
    assert (await api.state())["live grants"] == []


async def test_tokens_issued_beside_a_password_change_are_invalid_after_it(api: Api) -> None:
    admin = await api.caller("admin")
    for _ in range(2):
        held = await Credentials.of_new_user(api)
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
