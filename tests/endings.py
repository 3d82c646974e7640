"""What ends credentials, and which (decisions §5)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from driving import BASE, Api, Caller, refused
from owned import grants_of, sessions_of
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.features.access.api_keys import revoke_key
from portico.features.access.clients import Registered, delete_client
from portico.features.access.signing import Signer
from portico.features.access.storage import Clients
from portico.features.access.tokens import Pair
from portico.features.people.accounts import resume, suspend
from portico.features.signin.service import (
    end_application,
    end_session,
    sign_out_everywhere,
)
from portico.features.signin.service import end_login as end_login_at_once
from signing_in import (
    AUTH,
    PASSWORD,
    Visitor,
    client_of,
    code_of,
    login_of,
    named,
    oauth_refused,
    session_of,
    tokens_of,
)

NEW = "An0therword"
ME = f"{BASE['live']}/users/me"


@dataclass
class Credentials:
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
    async def of_new_user(cls, api: Api) -> "Credentials":
        """A new editor's. Each is used once, so that whatever is kept of it in memory is there."""
        user = await api.account("editor", password=PASSWORD)
        shop = await client_of(api.live)
        made = cls(
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
        for answer in await made.calls():
            assert answer.status_code == 200, answer.text
        return made

    async def calls(self) -> list[httpx.Response]:
        """The answers of the API to each credential that opens it."""
        visitor = Visitor(self.api)
        return [
            await self.caller.get("/users/me"),
            await visitor.me(cookie=self.session),
            await visitor.me(cookie=self.other_session),
            await visitor.me(self.login.access_token),
            await visitor.me(self.grant.access_token),
        ]

    async def valid(self) -> set[str]:
        """The names of the valid credentials, which every entrance must agree on. This uses those
        of one use."""
        answers = await self.calls()
        assert all(answer.status_code in (200, 401) for answer in answers)
        valid = {name for name, one in zip(OPENING, answers, strict=True) if one.status_code == 200}
        visitor = Visitor(self.api)
        for name, cookie in (("session", self.session), ("other session", self.other_session)):
            page = await visitor.send("GET", "/dashboard/profile", cookie=cookie)
            assert page.status_code == (200 if name in valid else 303)
        known = await self.api.live[Clients].by_client_id(self.shop.client.client_id)
        if known:
            access = await self.introspect(self.grant.access_token)
            assert access == ("oauth" in valid)
            refresh = await self.introspect(self.grant.refresh_token)
        uses = {
            "refresh": (await visitor.refresh(self.login.refresh_token), 401),
            "oauth refresh": (
                await visitor.renew(self.shop, self.grant.refresh_token),
                400 if known else 401,
            ),
            "code": (await visitor.exchange(self.shop, self.code), 400 if known else 401),
        }
        for name, (answer, refusal) in uses.items():
            assert answer.status_code in (200, refusal), answer.text
            if answer.status_code == 200:
                valid.add(name)
        assert not known or refresh == ("oauth refresh" in valid)
        return valid

    async def introspect(self, token: str) -> bool:
        """Whether the client is told that a token is active."""
        answer = await Visitor(self.api).form("introspect", {"token": token, **named(self.shop)})
        return bool(answer.json()["active"])


OPENING = ("key", "session", "other session", "jwt", "oauth")
"""The credentials that open the API, in the order of `Credentials.calls`."""
KEYS = {"key"}
SESSIONS = {"session", "other session"}
LOGIN = {"jwt", "refresh"}
GRANT = {"oauth", "oauth refresh"}
EVERYTHING = KEYS | SESSIONS | LOGIN | GRANT | {"code"}

Ending = Callable[[Credentials], Awaitable[object]]


async def sign_out(held: Credentials) -> None:
    answer = await Visitor(held.api).send("DELETE", f"{BASE['live']}/sessions", cookie=held.session)
    assert answer.status_code == 204


async def replace_session(held: Credentials) -> None:
    answer = await Visitor(held.api).open_session(held.user.email, cookie=held.session)
    assert answer.status_code == 201


async def end_newest_session(held: Credentials) -> None:
    newest, _ = await sessions_of(held.api.live, held.user.id, held.api.clock())
    await end_session(held.api.live, newest.id, OPERATOR)


async def end_login(held: Credentials) -> None:
    grants = await grants_of(held.api.live, held.user.id, held.api.clock())
    (login,) = [grant for grant in grants if grant.client_row_id is None]
    await end_login_at_once(held.api.live, login.id, OPERATOR)


def log_out(token: str) -> Ending:
    """Ends the login by one of its tokens, after a refresh: the older access token ends too."""

    async def work(held: Credentials) -> None:
        visitor, first = Visitor(held.api), held.login
        held.login = pair((await visitor.refresh(first.refresh_token)).json())
        assert (await visitor.me(held.login.access_token)).status_code == 200
        body = {"refresh_token": held.login.refresh_token} if token == "refresh" else None
        bearer = held.login.access_token if token == "access" else None
        answer = await visitor.send("POST", f"{AUTH['live']}/logout", body, bearer=bearer)
        assert (answer.status_code, answer.content) == (204, b"")
        refused(await visitor.me(first.access_token), 401)

    return work


async def end_consent(held: Credentials) -> None:
    await end_application(held.api.live, held.shop.client.id, held.user.id, OPERATOR)


def pair(body: dict[str, str]) -> Pair:
    """The tokens of an answer."""
    return Pair(body["access_token"], body["refresh_token"], frozenset())


async def reuse_login_refresh_token(held: Credentials) -> None:
    visitor, first = Visitor(held.api), held.login
    held.login = pair((await visitor.refresh(first.refresh_token)).json())
    assert (await visitor.me(held.login.access_token)).status_code == 200
    refused(await visitor.refresh(first.refresh_token), 401, "AUTHENTICATION_REQUIRED")
    refused(await visitor.me(first.access_token), 401)


async def reuse_refresh_token(held: Credentials) -> None:
    visitor, first = Visitor(held.api), held.grant
    second = pair((await visitor.renew(held.shop, first.refresh_token)).json())
    held.grant = pair((await visitor.renew(held.shop, second.refresh_token)).json())
    for tokens in (first, second, held.grant):
        assert (await visitor.me(tokens.access_token)).status_code == 200
    answer = await visitor.renew(held.shop, first.refresh_token)
    oauth_refused(answer, 400, "invalid_grant")
    for tokens in (first, second):
        refused(await visitor.me(tokens.access_token), 401)


async def reuse_code(held: Credentials) -> None:
    visitor = Visitor(held.api)
    await revoke("refresh")(held)
    first = pair((await visitor.exchange(held.shop, held.code)).json())
    held.grant = pair((await visitor.renew(held.shop, first.refresh_token)).json())
    for tokens in (first, held.grant):
        assert (await visitor.me(tokens.access_token)).status_code == 200
    oauth_refused(await visitor.exchange(held.shop, held.code), 400, "invalid_grant")
    refused(await visitor.me(first.access_token), 401)


def revoke(token: str) -> Ending:
    """Has the client revoke its access token, its refresh token, or one that it has used."""

    async def work(held: Credentials) -> None:
        visitor, first = Visitor(held.api), held.grant
        if token == "used":
            held.grant = pair((await visitor.renew(held.shop, first.refresh_token)).json())
        text = first.access_token if token == "access" else first.refresh_token
        form = {"token": text, "token_type_hint": "access_token", **named(held.shop)}
        for _ in range(2):
            answer = await visitor.form("revoke", form)
            assert (answer.status_code, answer.content) == (200, b"{}")
            assert answer.headers["cache-control"] == "no-store"

    return work


async def end_everything(held: Credentials) -> None:
    await sign_out_everywhere(held.api.live, held.user.id, OPERATOR)


async def change_password_by_session(held: Credentials) -> None:
    body = {"password": NEW, "current_password": PASSWORD}
    answer = await Visitor(held.api).send("PATCH", ME, body, cookie=held.session)
    assert answer.status_code == 200


async def change_password_by_admin(held: Credentials) -> None:
    admin = await held.api.caller("admin")
    answer = await admin.patch(f"/users/{held.user.id}", json={"password": NEW})
    assert answer.status_code == 200


async def delete_user(held: Credentials) -> None:
    admin = await held.api.caller("admin")
    assert (await admin.delete(f"/users/{held.user.id}")).status_code == 204


async def suspend_user(held: Credentials) -> None:
    await suspend(held.api.live, held.user.id, OPERATOR)


async def suspend_and_resume_user(held: Credentials) -> None:
    await suspend_user(held)
    await resume(held.api.live, held.user.id, OPERATOR)


async def delete_registered_client(held: Credentials) -> None:
    await delete_client(held.api.live, held.shop.client.id, by=OPERATOR)


async def revoke_api_key(held: Credentials) -> None:
    await revoke_key(held.api.live, held.caller.record.id, OPERATOR)


async def rotate_signing_key(held: Credentials) -> None:
    await held.api.live[Signer].rotate(OPERATOR, at_once=True)


ENDINGS: dict[str, tuple[Ending, set[str]]] = {
    "sign-out": (sign_out, {"session"}),
    "new session instead of the old": (replace_session, {"session"}),
    "end of the newest session": (end_newest_session, {"other session"}),
    "end of the login": (end_login, LOGIN),
    "logout by access token": (log_out("access"), LOGIN),
    "logout by refresh token": (log_out("refresh"), LOGIN),
    "reuse of the login's refresh token": (reuse_login_refresh_token, LOGIN),
    "end of the consent": (end_consent, {*GRANT, "code"}),
    "reuse of a refresh token": (reuse_refresh_token, GRANT),
    "reuse of a code": (reuse_code, {*GRANT, "code"}),
    "revocation of the access token": (revoke("access"), {"oauth"}),
    "revocation of the refresh token": (revoke("refresh"), GRANT),
    "revocation of a used refresh token": (revoke("used"), GRANT),
    "sign-out everywhere": (end_everything, EVERYTHING - KEYS),
    "change of the password by session": (
        change_password_by_session,
        EVERYTHING - KEYS - {"session"},
    ),
    "change of the password by an admin": (change_password_by_admin, EVERYTHING - KEYS),
    "deletion of the user": (delete_user, EVERYTHING),
    "suspension": (suspend_user, EVERYTHING),
    "suspension and resumption": (suspend_and_resume_user, EVERYTHING - KEYS),
    "deletion of the client": (delete_registered_client, {*GRANT, "code"}),
    "revocation of the key": (revoke_api_key, KEYS),
    "rotation of the signing key at once": (rotate_signing_key, {"jwt"}),
}
"""Which credentials each of them ends."""
