"""Signing in by password, cookie and OAuth tokens: at first use, in time, and once for all."""

import asyncio
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

from client.scripted import KEY, ME, PLACE, Scripted, answer, refusal
from client.signing import HOUR, PASSWORD, UNKNOWN, scripted, session, signing_in, tokens
from driving import Api
from oauth.authority import Authority
from owned import grants_of, sessions_of
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.features.signin.service import sign_out_everywhere
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
    ServiceUnavailable,
    SessionLogin,
)
from second_factor import CODES, factored
from signing_in import client_of, tokens_of

BOTH = pytest.mark.parametrize("kind", [Login, SessionLogin])
Kind = type[Login] | type[SessionLogin]


async def test_many_tasks_share_one_login_and_one_refresh_in_time(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    async with signing_in(api, Login(user.email, PASSWORD)) as (client, watched):
        assert watched.paths == [], "nothing is sent before it is needed"
        await asyncio.gather(*(client.me() for _ in range(20)))
        assert watched.paths.count("/auth/login") == 1
        for seconds in (HOUR - 9, HOUR):
            api.clock.advance(seconds=seconds)
            watched.paths.clear()
            await asyncio.gather(*(client.me() for _ in range(20)))
            assert watched.paths == ["/auth/refresh", *["/v1/users/me"] * 20], "before it ended"


async def test_a_token_that_was_revoked_is_renewed_once_for_all(api: Api) -> None:
    user = await api.account("editor", password=PASSWORD)
    async with signing_in(api, Login(user.email, PASSWORD)) as (client, watched):
        await client.me()
        await sign_out_everywhere(api.live, user.id, OPERATOR)
        found = await asyncio.gather(*(client.me() for _ in range(10)))
        assert {one.id for one in found} == {user.id}
        assert watched.paths.count("/auth/refresh") == 1, "which is refused too"
        assert watched.paths.count("/auth/login") == 2


async def test_a_session_signs_in_again_once_it_has_ended(api: Api) -> None:
    user = await api.account("viewer", password=PASSWORD)
    async with signing_in(api, SessionLogin(user.email, PASSWORD)) as (client, watched):
        for count in (1, 2):
            await asyncio.gather(*(client.me() for _ in range(5)))
            assert watched.paths.count("/v1/sessions") == count
            api.clock.advance(seconds=1801)
        await client.me()
        with pytest.raises(PermissionDenied):
            await client.products.create(name="Lamp", category="light", price=1)
        assert watched.paths.count("/v1/sessions") == 3, "403 is no question of signing in"


async def granted(
    api: Api, user: User, on_change: Callable[[OAuthTokens], Any] | None = None
) -> OAuthTokens:
    """What a client got of a user."""
    shop = await client_of(api.live)
    pair = await tokens_of(api.live, shop.client, user, "read:products read:users")
    own = (shop.client.client_id, shop.secret)
    return OAuthTokens(pair.access_token, pair.refresh_token, *own, on_change=on_change)


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
        assert watched.paths.count("/auth/token") == 1
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


async def test_tokens_that_cannot_be_renewed_are_refused_once(api: Api) -> None:
    user = await api.account("viewer")
    given = await granted(api, user)
    async with signing_in(api, replace(given, refresh_token=None)) as (client, watched):
        await client.me()
        await sign_out_everywhere(api.live, user.id, OPERATOR)
        with pytest.raises(AuthenticationRequired):
            await client.me()
        assert watched.paths == ["/v1/users/me"] * 2
    async with signing_in(api, given) as (client, watched):
        refused = await asyncio.gather(*(client.me() for _ in range(5)), return_exceptions=True)
        assert [one.code for one in refused if isinstance(one, OAuthError)] == ["invalid_grant"] * 5
        assert watched.paths.count("/auth/token") == 1


@pytest.mark.parametrize("then", ["called", "closed"])
async def test_a_cancelled_task_takes_no_token_with_it(api: Api, then: str) -> None:
    told: list[OAuthTokens] = []
    given = await granted(api, await api.account("viewer"), told.append)
    async with signing_in(api, given) as (client, watched):
        api.clock.advance(seconds=HOUR)
        task = asyncio.ensure_future(client.me())
        await watched.renewing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if then == "called":
            await client.me()
            assert watched.paths.count("/auth/token") == 1
    assert len(told) == 1


class Counting(httpx.HTTPTransport):
    """The network, and what was asked of it."""

    def __init__(self, ca: str) -> None:
        super().__init__(verify=ssl.create_default_context(cafile=ca))
        self.paths: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        return super().handle_request(request)


def test_threads_share_one_login_and_one_refresh(served: Authority, ca: str) -> None:
    person, network, now = served.person(), Counting(ca), [1_000_000.0]
    login = Login(person.email, person.password)
    with Client(auth=login, base_url=served.api, transport=network, clock=lambda: now[0]) as client:
        for _ in range(2):
            found: list[int] = []
            gate = threading.Barrier(10)

            def one(found: list[int] = found, gate: threading.Barrier = gate) -> None:
                gate.wait()
                found.append(client.me().id)

            threads = [threading.Thread(target=one) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert found == [person.id] * 10
            now[0] += HOUR
    assert network.paths.count("/auth/login") == 1
    assert network.paths.count("/auth/refresh") == 1


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


def test_a_login_is_not_repeated_where_it_may_have_happened_and_an_outage_is_no_refusal() -> None:
    client, script = scripted(httpx.ReadTimeout("slow"))
    with pytest.raises(ConnectionFailed):
        client.me()
    assert len(script.requests) == 1
    client, _ = scripted(refusal(503, "SERVICE_UNAVAILABLE"), tokens("one"), ME)
    with pytest.raises(ServiceUnavailable):
        client.me()
    assert client.me().id == 1


@pytest.mark.parametrize("name", ["__Host-session", "__Secure-session"])
def test_the_sessions_cookie_is_found_among_others_and_sent_alone(name: str) -> None:
    opened, own = session(f"balancer=7; Path=/, {name}=s3cr3t"), f"{name}=s3cr3t"
    login = SessionLogin("ada@example.com", PASSWORD)
    client, script = scripted(opened, ME, UNKNOWN, opened, ME, credential=login)
    client.me()
    client.me()
    cookies = [request.headers.get("cookie") for request in script.requests]
    assert cookies == [None, own, own, None, own]
    assert not any("authorization" in request.headers for request in script.requests)


# Whoever keeps the tokens

ENDED = datetime(2026, 1, 1, tzinfo=UTC)


def ended(on_change: Callable[[OAuthTokens], Any] | None = None) -> OAuthTokens:
    return OAuthTokens("old", "refresh", "client", expires_at=ENDED, on_change=on_change)


class Storing:
    """A listener that fails as often as it is told, then keeps what it is told."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.kept: list[str | None] = []

    def __call__(self, renewed: OAuthTokens) -> None:
        if self._failures:
            self._failures -= 1
            raise OSError("the disk is full")
        self.kept.append(renewed.refresh_token)


def test_a_refresh_token_that_gets_no_successor_goes_on() -> None:
    bought = {"access_token": "new", "token_type": "Bearer", "expires_in": HOUR}
    steps = answer(200, bought), ME, UNKNOWN, tokens("newer"), ME
    client, script = scripted(*steps, credential=ended())
    for _ in range(2):
        client.me()
    bodies = [dict(parse_qsl(request.content.decode())) for request in script.requests]
    sent = [body.get("refresh_token") for body in bodies]
    assert sent == ["refresh", None, None, "refresh", None]


def test_a_listener_that_fails_is_told_again_before_the_next_use() -> None:
    storing = Storing(failures=2)
    client, script = scripted(tokens("new"), ME, ME, credential=ended(storing))
    for _ in range(2):
        with pytest.raises(OSError, match="disk"):
            client.me()
    assert [request.url.path for request in script.requests] == ["/auth/token"]
    assert client.me().id == client.me().id == 1
    assert script.requests[1].headers["authorization"] == "Bearer new"
    assert storing.kept == ["after-new"], "once"


async def test_a_listener_may_make_calls_and_wait_for_others_with_the_new_tokens() -> None:
    async def listen(_: OAuthTokens) -> None:
        assert (await client.me()).id == 1
        await second

    script = Scripted(tokens("new"), ME, ME, ME)
    async with AsyncClient(auth=ended(listen), base_url=PLACE, transport=script) as client:
        first, second = (asyncio.create_task(client.me()) for _ in range(2))
        assert (await first).id == (await second).id == 1


@BOTH
async def test_a_code_is_asked_for_at_each_sign_in(api: Api, kind: Kind) -> None:
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


def test_claims_tell_how_a_user_signed_in() -> None:
    by_code = Claims("1", ENDED, None, None, {"amr": ["pwd", "otp", "mfa"], "acr": "2"})
    assert (by_code.amr, by_code.acr) == (("pwd", "otp", "mfa"), "2")
    assert Claims("1", ENDED, None, None, {}).amr == ()


# Logging out

GONE = answer(204)


def test_a_login_ends_by_its_refresh_token_and_the_next_call_signs_in_again() -> None:
    outage = refusal(503, "SERVICE_UNAVAILABLE")
    client, script = scripted(tokens("one"), ME, outage, GONE, tokens("two"), ME)
    client.logout()
    assert not script.requests, "there was none yet"
    client.me()
    with pytest.raises(ServiceUnavailable):
        client.logout()
    client.logout()
    ending = script.requests[-1]
    assert (ending.method, ending.url.path) == ("POST", "/auth/logout")
    assert json.loads(ending.content) == {"refresh_token": "after-one"}
    assert "authorization" not in ending.headers
    client.logout()
    assert len(script.requests) == 4, "it has ended"
    client.me()
    assert [request.url.path for request in script.requests[4:]] == ["/auth/login", "/v1/users/me"]


@pytest.mark.parametrize("ended_before", [GONE, UNKNOWN])
def test_a_session_ends_by_its_cookie(ended_before: Any) -> None:
    login = SessionLogin("ada@example.com", PASSWORD)
    client, script = scripted(session("__Host-session=s"), ME, ended_before, credential=login)
    client.me()
    client.logout()
    ending = script.requests[-1]
    assert (ending.method, ending.url.path) == ("DELETE", "/v1/sessions")
    assert ending.headers["cookie"] == "__Host-session=s"


def test_what_is_no_login_cannot_be_ended() -> None:
    for credential in ({"api_key": KEY}, {"auth": ended()}):
        options: Any = {"base_url": PLACE, "transport": Scripted(), **credential}
        with pytest.raises(ValueError, match="cannot be logged out"):
            Client(**options).logout()


@BOTH
async def test_what_was_ended_is_gone_from_the_service(api: Api, kind: Kind) -> None:
    user = await api.account("viewer", password=PASSWORD)
    async with signing_in(api, kind(user.email, PASSWORD)) as (client, _):
        await client.me()
        await client.logout()
        assert not await grants_of(api.live, user.id, api.clock())
        assert not await sessions_of(api.live, user.id, api.clock())
        assert (await client.me()).id == user.id
