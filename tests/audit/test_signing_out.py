"""What ends sessions, logins and consents: a new password, signing out everywhere, revocation."""

from collections.abc import Awaitable, Callable

import httpx
import pytest

from audit.conftest import Noted
from driving import Api, Caller
from owned import grants_of, sessions_of
from portico.core.audit import OPERATOR
from portico.core.errors import NotFound
from portico.core.oauth import Client
from portico.core.secrets import digest
from portico.core.sessions import BY_PASSWORD, Proof
from portico.core.times import DAY
from portico.core.users import User
from portico.features.access.storage import Clients, Code, Grants
from portico.features.people.storage import EmailToken, EmailTokens, Users
from portico.features.signin.service import end_grant, end_session, sign_out_everywhere

OLD, NEW = "Analytical1", "Analytical2"
CHANGE = {"password": NEW, "current_password": OLD}


async def test_a_sign_in_that_replaces_a_session_tells_of_its_end(api: Api, noted: Noted) -> None:
    browser = api.stranger()
    first, second = [await api.account("viewer", password=OLD) for _ in range(2)]
    answer = await browser.post("/sessions", json={"email": first.email, "password": OLD})
    browser.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
    ((session, *_),) = await api.live.db.all("SELECT id FROM sessions")
    await noted()

    await browser.post("/sessions", json={"email": second.email, "password": OLD})

    ended = {"user_id": first.id, "reason": "its browser signed in again"}
    told = await noted()
    assert ("session.revoked", "session", str(session), ended) in told
    assert [action for action, *_ in told] == ["session.revoked", "sign_in"]


class Signed:
    """An account with everything that signing in and consenting gives."""

    def __init__(self, api: Api, user: User) -> None:
        self.api = api
        self.user = user
        self.key: Caller
        self.sessions: list[httpx.AsyncClient] = []
        self.tokens: dict[str, str] = {}
        self.client_id = 0

    async def enter(self) -> "Signed":
        """Signs in twice by session and once by login, and consents to a client."""
        facts = {"email": self.user.email, "password": OLD}
        for _ in range(2):
            browser = self.api.stranger()
            answer = await browser.post("/sessions", json=facts)
            assert answer.status_code == 201, answer.text
            browser.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
            self.sessions.append(browser)
        answer = await self.api.stranger().post("https://localhost:8443/auth/login", json=facts)
        assert answer.status_code == 200, answer.text
        self.tokens["login"] = answer.json()["access_token"]
        self.tokens["refresh"] = answer.json()["refresh_token"]
        await self._consent()
        self.key = await self.api.caller(user=self.user)
        return self

    async def _consent(self) -> None:
        env, now = self.api.live, self.api.clock()
        self.tokens["oauth"] = "oat_" + "x" * 43 + str(self.user.id)
        async with env.db.transaction() as tx:
            scopes = frozenset({"read:users"})
            name = f"client_{self.user.id}"
            client = Client(0, name, None, None, "Shop", (), scopes, now)
            self.client_id = (await env[Clients].insert(tx, client)).id
            grant = await env[Grants].insert(
                tx,
                user_id=self.user.id,
                client_row_id=self.client_id,
                scopes=scopes,
                address="192.0.2.1",
                user_agent="",
                proof=Proof(BY_PASSWORD, now),
                now=now,
                expires_at=now + DAY,
            )
            await env[Grants].issue(
                tx,
                grant.id,
                refresh_hash=digest(f"refresh {self.user.id}"),
                access_hash=digest(self.tokens["oauth"]),
                scopes=scopes,
                now=now,
                access_expires_at=now + DAY,
                refresh_expires_at=now + DAY,
            )
            code = Code(
                self.client_id, self.user.id, "", scopes, None, None, now, now + DAY, BY_PASSWORD
            )
            await env[Grants].add_code(tx, digest(f"code {self.user.id}"), code)
            token = EmailToken(self.user.id, "reset", self.user.email, now + DAY)
            await env[EmailTokens].insert(tx, digest(f"reset {self.user.id}"), token)

    async def opens(self) -> dict[str, bool]:
        """What still holds."""
        env, user_id = self.api.live, self.user.id
        stranger = self.api.stranger()
        holds = {
            f"session {number}": (await browser.get("/users/me")).status_code == 200
            for number, browser in enumerate(self.sessions)
        }
        for kind in ("login", "oauth"):
            bearer = {"authorization": f"Bearer {self.tokens[kind]}"}
            holds[kind] = (await stranger.get("/users/me", headers=bearer)).status_code == 200
        holds["code"] = await env[Grants].code(digest(f"code {user_id}")) is not None
        holds["reset"] = await env[EmailTokens].by_hash(digest(f"reset {user_id}")) is not None
        holds["key"] = (await self.key.get("/users/me")).status_code == 200
        return holds

    async def refresh(self) -> int:
        """The status of an attempt to refresh the login."""
        answer = await self.api.stranger().post(
            "https://localhost:8443/auth/refresh",
            json={"refresh_token": self.tokens["refresh"]},
        )
        return answer.status_code


EVERYTHING = ("session 0", "session 1", "login", "oauth", "code", "reset", "key")


def only(*names: str) -> dict[str, bool]:
    return {name: name in names for name in EVERYTHING}


async def signed(api: Api, role: str = "viewer") -> Signed:
    return await Signed(api, await api.account(role, password=OLD)).enter()


async def by_session(_api: Api, person: Signed) -> httpx.Response:
    return await person.sessions[0].patch("/users/me", json=CHANGE)


async def by_key(_api: Api, person: Signed) -> httpx.Response:
    return await person.key.patch("/users/me", json=CHANGE)


async def by_an_admin(api: Api, person: Signed) -> httpx.Response:
    admin = await api.caller("admin")
    return await admin.patch(f"/users/{person.user.id}", json={"password": NEW})


async def by_an_admins_session(api: Api, person: Signed) -> httpx.Response:
    admin = await signed(api, "admin")
    return await admin.sessions[0].patch(f"/users/{person.user.id}", json={"password": NEW})


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        (by_session, ("session 0", "key")),
        (by_key, ("key",)),
        (by_an_admin, ("key",)),
        (by_an_admins_session, ("key",)),
    ],
)
async def test_a_new_password_ends_everything_but_keys_and_the_session_that_set_it(
    api: Api, change: Callable[[Api, Signed], Awaitable[httpx.Response]], stays: tuple[str, ...]
) -> None:
    person, other = await signed(api), await signed(api)
    assert await person.opens() == only(*EVERYTHING)

    answer = await change(api, person)

    assert answer.status_code == 200, answer.text
    assert await person.opens() == only(*stays)
    assert await person.refresh() == 401
    assert await other.opens() == only(*EVERYTHING)
    assert await other.refresh() == 200


async def test_a_refused_password_ends_nothing(api: Api) -> None:
    person = await signed(api)
    for body in (
        {"password": NEW, "current_password": "Wrong1234"},
        {"password": NEW},
        {"password": "weak", "current_password": OLD},
    ):
        async with api.unchanged(but="audit"):
            answer = await person.sessions[0].patch("/users/me", json=body)
            assert answer.status_code == 422
    answer = await person.key.patch("/users/me", json=CHANGE, headers={"if-match": '"stale"'})
    assert answer.status_code == 412
    assert (await person.key.patch("/users/me", json={"name": "Another"})).status_code == 200
    assert await person.opens() == only(*EVERYTHING)


async def test_a_new_email_is_not_verified_and_the_old_one_opens_nothing(api: Api) -> None:
    admin, person = await api.caller("admin"), await signed(api)
    where = f"/users/{person.user.id}"
    async with api.live.db.transaction() as tx:
        await tx.run("UPDATE users SET email_verified_at = 1")
    assert (await admin.patch(where, json={"name": "Another"})).status_code == 200
    same = {"email": person.user.email.upper()}
    assert (await admin.patch(where, json=same)).status_code == 200
    user = await api.live[Users].get(person.user.id)
    assert user is not None
    assert user.email_verified_at == 1
    assert await person.opens() == only(*EVERYTHING)

    assert (await admin.patch(where, json={"email": "new@example.com"})).status_code == 200

    user = await api.live[Users].get(person.user.id)
    assert user is not None
    assert user.email_verified_at is None
    assert await person.opens() == only(*(set(EVERYTHING) - {"reset"}))


async def test_signing_out_everywhere_leaves_keys_and_perhaps_one_session(
    api: Api, noted: Noted
) -> None:
    person, other = await signed(api), await signed(api)
    sessions = await sessions_of(api.live, person.user.id, api.clock())
    await noted()

    ended = await sign_out_everywhere(
        api.live, person.user.id, OPERATOR, but_session=sessions[0].id
    )

    assert ended == (1, 2)
    assert await person.opens() == only("session 1", "reset", "key")
    assert await other.opens() == only(*EVERYTHING)
    counts = {"sessions": 1, "grants": 2}
    assert await noted() == [("sign_out.everywhere", "user", str(person.user.id), counts)]
    await sign_out_everywhere(api.live, person.user.id, OPERATOR)
    assert await person.opens() == only("reset", "key")
    await noted()
    with pytest.raises(NotFound):
        await sign_out_everywhere(api.live, 10**9, OPERATOR)
    assert await noted() == []


async def test_one_session_or_one_grant_may_be_ended_by_its_owner_alone(
    api: Api, noted: Noted
) -> None:
    person, other = await signed(api), await signed(api)
    now = api.clock()
    newest, _ = await sessions_of(api.live, person.user.id, now)
    consent, login = await grants_of(api.live, person.user.id, now)
    await noted()
    async with api.unchanged():
        for row_id in (newest.id, 10**9):
            with pytest.raises(NotFound):
                await end_session(api.live, row_id, OPERATOR, of_user=other.user.id)
        for row_id in (login.id, 10**9):
            with pytest.raises(NotFound):
                await end_grant(api.live, row_id, OPERATOR, of_user=other.user.id)
    assert await noted() == []

    await end_session(api.live, newest.id, OPERATOR, of_user=person.user.id)
    await end_grant(api.live, login.id, OPERATOR, of_user=person.user.id)
    assert await person.opens() == only("session 0", "oauth", "code", "reset", "key")
    await end_grant(api.live, consent.id, OPERATOR)

    assert await person.opens() == only("session 0", "code", "reset", "key")
    assert await person.refresh() == 401
    owner, name = {"user_id": person.user.id}, f"client_{person.user.id}"
    assert await noted() == [
        ("session.revoked", "session", str(newest.id), owner),
        ("grant.revoked", "grant", str(login.id), {**owner, "client_id": None}),
        ("grant.revoked", "grant", str(consent.id), {**owner, "client_id": name}),
    ]
    with pytest.raises(NotFound):
        await end_session(api.live, newest.id, OPERATOR)
    with pytest.raises(NotFound):
        await end_grant(api.live, login.id, OPERATOR)
    assert await noted() == []
