"""What ends credentials, and which (decisions §5)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from driving import BASE, Api, Caller
from owned import grants_of, sessions_of
from portico.domain.audit import OPERATOR
from portico.domain.users import User
from portico.services.api_keys import revoke_key
from portico.services.clients import Registered, delete_client
from portico.services.sign_out import end_grant, end_session, sign_out_everywhere
from portico.services.suspension import resume, suspend
from portico.services.tokens import Pair
from signing_in import (
    PASSWORD,
    Visitor,
    client_of,
    code_of,
    login_of,
    session_of,
    tokens_of,
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
