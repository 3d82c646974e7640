"""Signing in by password, cookie and OAuth tokens: at first use, in time, and once for all."""

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

from client.scripted import PLACE, Scripted, answer, refusal
from driving import Api, InProcess
from oauth.authority import Authority
from portico.core.audit import OPERATOR, Actor, By
from portico.core.oauth import Client as OAuthClient
from portico.core.sessions import BY_PASSWORD, Proof
from portico.core.users import User
from portico.features.access.authorization import (
    ConsentRequest,
    Exchange,
    exchange_code,
    grant_code,
)
from portico.features.access.clients import Registration, register_client
from portico_client import (
    AsyncClient,
    AuthenticationRequired,
    Claims,
    Client,
    ConnectionFailed,
    Login,
    OAuthError,
    OAuthTokens,
    PermissionDenied,
    SessionLogin,
    UnexpectedAnswer,
)
from second_factor import CODES, code_of, factored

PASSWORD = "Analytical1"
HOUR = 3600
ANYBODY = {
    "id": 1,
    "name": "Ada",
    "email": "ada@example.com",
    "role": "viewer",
    "created_at": "2026-03-15T12:00:00.000Z",
    "updated_at": "2026-03-15T12:00:00.000Z",
    "avatar_url": None,
    "last_login_at": None,
    "preferences": {"theme": "dark", "language": "en", "notifications": True},
}
ME = answer(200, {"data": ANYBODY})
UNKNOWN = refusal(401, "AUTHENTICATION_REQUIRED")


class Watched(InProcess):
    """The application, and what was asked of it."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.paths: list[str] = []
        self.renewing = asyncio.Event()
        """Set once tokens were asked for."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`. Others get their turn meanwhile, as on a network."""
        self.paths.append(request.url.path)
        if request.url.path == "/auth/token":
            self.renewing.set()
        await asyncio.sleep(0)
        return await super().handle_async_request(request)

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return self.paths.count(path)


@asynccontextmanager
async def signing_in(api: Api, credential: Any) -> AsyncIterator[tuple[AsyncClient, Watched]]:
    """A client of the application, whose clock is the application's."""
    watched = Watched(api)
    async with AsyncClient(
        auth=credential, transport=watched, clock=lambda: api.clock() / 1000
    ) as client:
        yield client, watched


async def test_a_login_signs_in_once_and_refreshes_in_time(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    async with signing_in(api, Login(user.email, PASSWORD)) as (client, watched):
        assert watched.paths == [], "nothing is sent before it is needed"
        for _ in range(3):
            assert (await client.me()).id == user.id
        assert watched.paths == ["/auth/login", *["/v1/users/me"] * 3]
        api.clock.advance(seconds=HOUR - 9)
        await client.me()
        assert watched.paths[4:] == ["/auth/refresh", "/v1/users/me"], "before it ended"
        api.clock.advance(seconds=HOUR)
        await client.me()
        assert watched.count("/auth/refresh") == 2
        assert watched.count("/auth/login") == 1


async def test_many_tasks_that_need_a_new_token_share_one_refresh(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    async with signing_in(api, Login(user.email, PASSWORD)) as (client, watched):
        await asyncio.gather(*(client.me() for _ in range(20)))
        assert watched.count("/auth/login") == 1
        api.clock.advance(seconds=HOUR)
        await asyncio.gather(*(client.me() for _ in range(20)))
        assert watched.count("/auth/refresh") == 1
        assert watched.count("/v1/users/me") == 40


async def test_a_token_that_was_revoked_is_renewed_once_for_all(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    async with signing_in(api, Login(user.email, PASSWORD)) as (client, watched):
        await client.me()
        await revoke_everything(api, user)
        found = await asyncio.gather(*(client.me() for _ in range(10)))
        assert {one.id for one in found} == {user.id}
        assert watched.count("/auth/refresh") == 1, "which is refused too"
        assert watched.count("/auth/login") == 2


async def revoke_everything(api: Api, user: User) -> None:
    """Ends all logins of a user, as an operator does."""
    async with api.live.db.transaction() as tx:
        sql = "UPDATE grants SET revoked_at = :now WHERE user_id = :user"
        await tx.run(sql, {"now": api.clock(), "user": user.id})


async def test_a_wrong_password_is_tried_once(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    async with signing_in(api, Login(user.email, "Analytical2")) as (client, watched):
        refused = await asyncio.gather(*(client.me() for _ in range(10)), return_exceptions=True)
        assert all(isinstance(one, AuthenticationRequired) for one in refused)
        assert watched.paths == ["/auth/login"]


async def test_a_session_signs_in_again_once_it_has_ended(api: Api) -> None:
    user = await api.account("viewer", password=PASSWORD)
    async with signing_in(api, SessionLogin(user.email, PASSWORD)) as (client, watched):
        await asyncio.gather(*(client.me() for _ in range(5)))
        assert watched.count("/v1/sessions") == 1
        api.clock.advance(seconds=1801)
        await asyncio.gather(*(client.me() for _ in range(5)))
        assert watched.count("/v1/sessions") == 2
        with pytest.raises(PermissionDenied):
            await client.products.create(name="Lamp", category="light", price=1)
        assert watched.count("/v1/sessions") == 2, "403 is no question of signing in"


CALLBACK = "https://shop.example/callback"


async def registered(api: Api) -> tuple[OAuthClient, str]:
    """A client with a secret."""
    wanted = Registration("Storefront", [CALLBACK], "read:products read:users")
    made = await register_client(api.live, None, wanted, public=False, by=OPERATOR)
    assert made.secret is not None
    return made.client, made.secret


async def granted(
    api: Api, user: User, on_change: Callable[[OAuthTokens], Any] | None = None
) -> OAuthTokens:
    """What a client got of a user."""
    application, secret = await registered(api)
    by = By(Actor(user_id=user.id))
    wanted = ConsentRequest(application, CALLBACK, application.scopes, None, None)
    code = await grant_code(api.live, wanted, Proof(BY_PASSWORD, api.clock()), by)
    bought = await exchange_code(api.live, application, Exchange(code, CALLBACK, None), by)
    return OAuthTokens(
        bought.pair.access_token,
        bought.pair.refresh_token,
        application.client_id,
        secret,
        on_change=on_change,
    )


async def test_oauth_tokens_are_renewed_and_the_new_ones_told_first(api: Api) -> None:
    user = await api.account("viewer")
    told: list[OAuthTokens] = []

    async def store(tokens: OAuthTokens) -> None:
        await asyncio.sleep(0)
        told.append(tokens)

    first = await granted(api, user, store)
    async with signing_in(api, first) as (client, watched):
        await client.me()
        assert told == []
        api.clock.advance(seconds=HOUR)
        await asyncio.gather(*(client.me() for _ in range(10)))
        assert watched.count("/auth/token") == 1
    (second,) = told
    assert second.access_token != first.access_token
    assert second.refresh_token != first.refresh_token
    assert second.scopes == {"read:products", "read:users"}
    assert second.expires_at == datetime.fromtimestamp(api.clock() / 1000 + HOUR, UTC)
    api.clock.advance(seconds=HOUR - 5)
    async with signing_in(api, second) as (client, watched):
        await client.me()
        assert watched.paths == ["/auth/token", "/v1/users/me"], "in time, as the end is known"
    assert len(told) == 2


async def test_tokens_that_were_revoked_are_refused_once(api: Api) -> None:
    user = await api.account("viewer")
    async with signing_in(api, await granted(api, user)) as (client, watched):
        await client.me()
        await revoke_everything(api, user)
        refused = await asyncio.gather(*(client.me() for _ in range(5)), return_exceptions=True)
        assert [one.code for one in refused if isinstance(one, OAuthError)] == ["invalid_grant"] * 5
        assert watched.count("/auth/token") == 1


async def test_tokens_without_a_refresh_token_end_with_the_access_token(api: Api) -> None:
    user = await api.account("viewer")
    tokens = replace(await granted(api, user), refresh_token=None)
    async with signing_in(api, tokens) as (client, watched):
        await client.me()
        api.clock.advance(seconds=HOUR)
        with pytest.raises(AuthenticationRequired):
            await client.me()
        assert watched.paths == ["/v1/users/me"] * 2


async def test_a_cancelled_task_takes_no_token_with_it(api: Api) -> None:
    user = await api.account("viewer")
    told: list[OAuthTokens] = []
    async with signing_in(api, await granted(api, user, told.append)) as (client, watched):
        api.clock.advance(seconds=HOUR)
        task = asyncio.ensure_future(client.me())
        await watched.renewing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await client.me()).id == user.id
        assert watched.count("/auth/token") == 1
        assert len(told) == 1


async def test_closing_waits_for_the_tokens_that_are_on_their_way(api: Api) -> None:
    user = await api.account("viewer")
    told: list[OAuthTokens] = []
    async with signing_in(api, await granted(api, user, told.append)) as (client, watched):
        api.clock.advance(seconds=HOUR)
        task = asyncio.ensure_future(client.me())
        await watched.renewing.wait()
        task.cancel()
    assert len(told) == 1


class Counting(httpx.HTTPTransport):
    """The network, and what was asked of it."""

    def __init__(self, ca: str) -> None:
        super().__init__(verify=ssl.create_default_context(cafile=ca))
        self.paths: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.BaseTransport`."""
        self.paths.append(request.url.path)
        return super().handle_request(request)


def test_threads_share_one_login_and_one_refresh(served: Authority, ca: str) -> None:
    person, network, now = served.person(), Counting(ca), [1_000_000.0]
    with Client(
        auth=Login(person.email, person.password),
        base_url=served.api,
        transport=network,
        clock=lambda: now[0],
    ) as client:
        assert in_threads(10, lambda: client.me().id) == [person.id] * 10
        now[0] += HOUR
        assert in_threads(10, lambda: client.me().id) == [person.id] * 10
    assert network.paths.count("/auth/login") == 1
    assert network.paths.count("/auth/refresh") == 1


def in_threads(times: int, work: Callable[[], Any]) -> list[Any]:
    """What `work` returns in each of as many threads at once."""
    found: list[Any] = []
    gate = threading.Barrier(times)

    def one() -> None:
        gate.wait()
        found.append(work())

    threads = [threading.Thread(target=one) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("kind", [Login, SessionLogin])
def test_a_person_signs_in_over_the_network(
    served: Authority, ca: str, kind: type[Login] | type[SessionLogin]
) -> None:
    person = served.person("viewer")
    with Client(auth=kind(person.email, person.password), base_url=served.api, ca=ca) as client:
        assert client.me().email == person.email
        assert client.me().last_login_at is not None


def tokens(access: str) -> Any:
    """An answer with tokens."""
    return answer(
        200,
        {
            "access_token": access,
            "refresh_token": f"after-{access}",
            "token_type": "Bearer",
            "expires_in": HOUR,
        },
    )


def scripted(*steps: Any, credential: Any = None) -> tuple[Client, Scripted]:
    """A client before a script."""
    script = Scripted(*steps)
    client = Client(
        auth=credential or Login("ada@example.com", PASSWORD),
        base_url=PLACE,
        transport=script,
        sleep=lambda _: None,
    )
    return client, script


def test_a_new_token_that_is_refused_too_is_not_renewed_again() -> None:
    client, script = scripted(tokens("one"), UNKNOWN)
    with pytest.raises(AuthenticationRequired):
        client.me()
    assert [request.url.path for request in script.requests] == ["/auth/login", "/v1/users/me"]
    client, script = scripted(tokens("one"), ME, UNKNOWN, tokens("two"), UNKNOWN)
    client.me()
    with pytest.raises(AuthenticationRequired):
        client.me()
    assert len(script.requests) == 5


def test_a_login_is_not_repeated_where_it_may_have_happened() -> None:
    client, script = scripted(httpx.ReadTimeout("slow"))
    with pytest.raises(ConnectionFailed):
        client.me()
    assert len(script.requests) == 1


def test_an_outage_is_no_refusal_of_the_password() -> None:
    outage = refusal(503, "SERVICE_UNAVAILABLE", retry_after="1")
    client, _ = scripted(outage, tokens("one"), ME)
    with pytest.raises(Exception, match="SERVICE_UNAVAILABLE"):
        client.me()
    assert client.me().id == 1


def session(cookie: str) -> Any:
    """An answer that opens a session."""
    return answer(201, {"data": {}}, set_cookie=f"{cookie}; Path=/; Secure; HttpOnly")


@pytest.mark.parametrize("name", ["__Host-session", "__Secure-session"])
def test_the_sessions_cookie_is_found_among_others(name: str) -> None:
    opened = session(f"balancer=7; Path=/, {name}=s3cr3t")
    client, script = scripted(opened, ME, credential=SessionLogin("ada@example.com", PASSWORD))
    client.me()
    assert script.requests[1].headers["cookie"] == f"{name}=s3cr3t"


def test_a_hostile_header_of_cookies_is_looked_through_once() -> None:
    """Else it could hold up all of a program for half a minute."""
    hostile = session("__Host-session=" * 10_000 + "\x7f")
    client, _ = scripted(hostile, credential=SessionLogin("ada@example.com", PASSWORD))
    began = time.process_time()
    with pytest.raises(UnexpectedAnswer):
        client.me()
    assert time.process_time() - began < 2


def test_a_cookie_goes_nowhere_but_where_it_is_sent() -> None:
    opened, login = session("__Host-session=s3cr3t"), SessionLogin("ada@example.com", PASSWORD)
    client, script = scripted(opened, ME, UNKNOWN, opened, ME, credential=login)
    client.me()
    client.me()
    own = "__Host-session=s3cr3t"
    cookies = [request.headers.get("cookie") for request in script.requests]
    assert cookies == [None, own, own, None, own]
    assert not any("authorization" in request.headers for request in script.requests)


class Storing:
    """A listener that fails as often as it is told, then keeps what it is told."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.kept: list[str | None] = []

    def __call__(self, renewed: OAuthTokens) -> None:
        """Keeps the refresh token."""
        if self._failures:
            self._failures -= 1
            raise OSError("the disk is full")
        self.kept.append(renewed.refresh_token)


ENDED = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_refresh_token_that_gets_no_successor_goes_on() -> None:
    held = OAuthTokens("old", "refresh", "client", expires_at=ENDED)
    bought = {"access_token": "new", "token_type": "Bearer", "expires_in": HOUR}
    refused = answer(401, {"error": {"code": "AUTHENTICATION_REQUIRED"}})
    steps = answer(200, bought), ME, refused, tokens("newer"), ME
    client, script = scripted(*steps, credential=held)
    for _ in range(2):
        client.me()
    bodies = [dict(parse_qsl(request.content.decode())) for request in script.requests]
    sent = [body.get("refresh_token") for body in bodies]
    assert sent == ["refresh", None, None, "refresh", None]


def test_a_listener_that_fails_is_told_again_before_the_next_use() -> None:
    storing = Storing(failures=2)
    held = OAuthTokens("old", "refresh", "client", expires_at=ENDED, on_change=storing)
    client, script = scripted(tokens("new"), ME, ME, credential=held)
    for _ in range(2):
        with pytest.raises(OSError, match="disk"):
            client.me()
    assert [request.url.path for request in script.requests] == ["/auth/token"]
    assert client.me().id == client.me().id == 1
    assert script.requests[1].headers["authorization"] == "Bearer new"
    assert storing.kept == ["after-new"], "once"


async def test_of_tasks_that_wait_for_new_tokens_one_hears_that_the_listener_failed() -> None:
    storing = Storing(failures=1)
    held = OAuthTokens("old", "refresh", "client", expires_at=ENDED, on_change=storing)
    script = Scripted(tokens("new"), ME, ME, ME)
    async with AsyncClient(auth=held, base_url=PLACE, transport=script) as client:
        calls = [client.me() for _ in range(3)]
        made = await asyncio.gather(*calls, return_exceptions=True)
        await client.me()
    assert [isinstance(one, OSError) for one in made].count(True) == 1
    assert storing.kept == ["after-new"]


def test_a_listener_may_make_calls_with_the_new_tokens() -> None:
    known: list[int] = []
    failures = [OSError("the disk is full")]

    def listen(_: OAuthTokens) -> None:
        known.append(client.me().id)
        if failures:
            raise failures.pop()

    held = OAuthTokens("old", "refresh", "client", expires_at=ENDED, on_change=listen)
    client, _ = scripted(tokens("new"), ME, ME, ME, credential=held)
    with pytest.raises(OSError, match="disk"):
        client.me()
    assert client.me().id == 1
    assert known == [1, 1]


@pytest.mark.parametrize(
    ("later", "steps", "kept"),
    [
        (HOUR, [tokens("two"), ME, ME], ["after-two"]),
        (0, [UNKNOWN, tokens("two"), ME, UNKNOWN, ME, ME], ["after-one", "after-two"]),
    ],
    ids=["ended", "revoked"],
)
def test_a_listener_may_make_calls_where_the_tokens_that_it_did_not_take_are_over(
    later: int, steps: list[Any], kept: list[str]
) -> None:
    now = ENDED.timestamp()
    failures = [OSError("the disk is full")]
    stored: list[str | None] = []

    def listen(renewed: OAuthTokens) -> None:
        if failures:
            raise failures.pop()
        assert client.me().id == 1
        stored.append(renewed.refresh_token)

    held = OAuthTokens("old", "refresh", "client", expires_at=ENDED, on_change=listen)
    script = Scripted(tokens("one"), *steps)
    client = Client(auth=held, base_url=PLACE, transport=script, clock=lambda: now)
    with pytest.raises(OSError, match="disk"):
        client.me()
    now += later
    assert client.me().id == 1
    assert stored == kept


async def test_a_listener_may_wait_for_calls_that_wait_for_the_tokens() -> None:
    async def listen(_: OAuthTokens) -> None:
        await second

    held = OAuthTokens("old", "refresh", "client", expires_at=ENDED, on_change=listen)
    script = Scripted(tokens("new"), ME, ME)
    async with AsyncClient(auth=held, base_url=PLACE, transport=script) as client:
        first, second = (asyncio.create_task(client.me()) for _ in range(2))
        assert (await first).id == (await second).id == 1


async def test_new_tokens_are_told_also_where_the_call_is_given_up() -> None:
    told, go_on = asyncio.Event(), asyncio.Event()
    stored: list[str | None] = []

    async def listen(renewed: OAuthTokens) -> None:
        told.set()
        await go_on.wait()
        stored.append(renewed.refresh_token)

    held = OAuthTokens("old", "refresh", "client", expires_at=ENDED, on_change=listen)
    script = Scripted(tokens("new"))
    async with AsyncClient(auth=held, base_url=PLACE, transport=script) as client:
        call = asyncio.create_task(client.me())
        await told.wait()
        call.cancel()
        go_on.set()
    assert stored == ["after-new"]


@pytest.mark.parametrize("kind", [Login, SessionLogin])
async def test_a_code_is_asked_for_at_each_sign_in(
    api: Api, kind: type[Login] | type[SessionLogin]
) -> None:
    user = await factored(api, password=PASSWORD)
    asked: list[str] = []

    def otp() -> str:
        asked.append(CODES[len(asked)])
        return asked[-1]

    for count in (1, 2):
        async with signing_in(api, kind(user.email, PASSWORD, otp)) as (client, _):
            assert (await client.me()).email == user.email
        assert len(asked) == count
    async with signing_in(api, kind(user.email, PASSWORD)) as (client, _):
        with pytest.raises(AuthenticationRequired) as refused:
            await client.me()
    assert [detail.field for detail in refused.value.details] == ["otp"]


@pytest.mark.parametrize("kind", [Login, SessionLogin])
async def test_of_two_workers_with_one_code_both_get_in_once_there_is_another(
    api: Api, kind: type[Login] | type[SessionLogin]
) -> None:
    user = await factored(api, password=PASSWORD)
    credential = kind(user.email, PASSWORD, lambda: code_of(api))
    async with (
        signing_in(api, credential) as (first, _),
        signing_in(api, credential) as (second, watched),
    ):
        assert (await first.me()).email == user.email
        for _ in range(2):
            with pytest.raises(AuthenticationRequired):
                await second.me()
        assert len(watched.paths) == 1
        api.clock.advance(seconds=30)
        assert (await second.me()).email == user.email


def test_claims_tell_how_a_user_signed_in() -> None:
    end = datetime(2026, 1, 1, tzinfo=UTC)
    by_code = Claims("1", end, None, None, {"amr": ["pwd", "otp", "mfa"], "acr": "2"})
    assert by_code.amr == ("pwd", "otp", "mfa")
    assert by_code.acr == "2"
    assert Claims("1", end, None, None, {}).amr == ()
