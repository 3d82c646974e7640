"""Which requests count against whom where that is not plain: OAuth, authorizing, signing out."""

import asyncio
from typing import Any
from urllib.parse import urlencode

import pytest

from driving import BASE, TINY, Api, InProcess, refused
from operating import eventually
from portico.limits.protocol import ACCOUNT, ACCOUNT_PAGES, ADDRESS, VISITOR
from portico.web.pages.responder import LOOKING
from portico.web.pages.site import csrf_token
from portico.web.routing import PUBLIC_BODY_LIMIT
from signing_in import (
    AUTH,
    FORM,
    Visitor,
    client_of,
    login_of,
    named,
    oauth_refused,
    session_of,
    tokens_of,
)

pytestmark = pytest.mark.one_engine

DASHBOARD = "https://localhost:8443/dashboard"
HERE = "192.0.2.1"
COUNTED = (ADDRESS, VISITOR)
"""A stranger's requests of the API, and for pages."""


async def exhaust(api: Api) -> Visitor:
    """Somebody whose address has nothing left."""
    visitor = Visitor(api, HERE)
    for _ in range(30):
        refused(await visitor.me(), 401)
    refused(await visitor.me(), 429)
    return visitor


async def refusals(api: Api) -> float:
    """What the metrics tell of requests over a limit."""
    metrics = await Visitor(api, "127.0.0.1").send("GET", "https://localhost:8443/metrics")
    name = 'portico_limiter_refusals_total{environment="live"} '
    return float(metrics.text.partition(name)[2].partition("\n")[0])


async def test_signing_out_works_when_the_quota_is_spent(api: Api) -> None:
    user = await api.account(plan=TINY)
    secret, other = await session_of(api.live, user), await session_of(api.live, user)
    visitor = Visitor(api, HERE)
    for _ in range(3):
        assert (await visitor.me(cookie=secret)).status_code == 200
    refused(await visitor.me(cookie=secret), 429)
    answer = await visitor.send("DELETE", f"{BASE['live']}/sessions", cookie=secret)
    assert answer.status_code == 204
    assert answer.headers["x-ratelimit-remaining"] == "0"
    assert await api.live.limiter.used((ACCOUNT, user.id), api.clock.now) == (3, 3)
    refused(await visitor.me(cookie=secret), 401)
    refused(await visitor.me(cookie=other), 429)


async def test_a_login_can_be_ended_when_the_address_has_nothing_left(api: Api) -> None:
    user = await api.account()
    ended, left, refreshed = [await login_of(api.live, user) for _ in range(3)]
    visitor, url = await exhaust(api), f"{AUTH['live']}/logout"
    answer = await visitor.send("POST", url, bearer=ended.access_token)
    assert (answer.status_code, answer.headers["x-ratelimit-remaining"]) == (204, "0")
    answer = await visitor.send("POST", url, {"refresh_token": refreshed.refresh_token})
    assert answer.status_code == 204
    assert await api.live.limiter.used((ADDRESS, HERE), api.clock.now) == (30, 30)
    elsewhere = Visitor(api)
    refused(await elsewhere.me(ended.access_token), 401)
    refused(await elsewhere.refresh(refreshed.refresh_token), 401)
    assert (await elsewhere.me(left.access_token)).status_code == 200


async def test_nobody_guesses_logins_to_end_when_the_address_has_nothing_left(api: Api) -> None:
    user = await api.account()
    shop = await client_of(api.live)
    consent, ended = await tokens_of(api.live, shop.client, user), await login_of(api.live, user)
    visitor, url = await exhaust(api), f"{AUTH['live']}/logout"
    await visitor.send("POST", url, bearer=ended.access_token)
    before = await refusals(api)
    tries: list[dict[str, Any]] = [
        {"body": {"refresh_token": "ort_guessed"}},
        {"bearer": "guessed"},
        {"bearer": ended.access_token},
        {"bearer": consent.access_token},
    ]
    async with api.unchanged():
        for sent in tries:
            answer = await visitor.send("POST", url, **sent)
            refused(answer, 429, "RATE_LIMITED")
            assert int(answer.headers["retry-after"]) > 0
    assert await api.live.limiter.used((ADDRESS, HERE), api.clock.now) == (30, 30)
    assert await refusals(api) == before + len(tries)


@pytest.mark.parametrize("kind", ["key", "login", "consent"])
async def test_ending_a_session_by_a_bearer_counts_against_its_limit(api: Api, kind: str) -> None:
    user = await api.account("viewer", plan=TINY)
    if kind == "key":
        bearer = (await api.caller(user=user)).key
    elif kind == "login":
        bearer = (await login_of(api.live, user)).access_token
    else:
        bearer = (await tokens_of(api.live, (await client_of(api.live)).client, user)).access_token
    visitor, url = Visitor(api), f"{BASE['live']}/sessions"
    for _ in range(3):
        refused(await visitor.send("DELETE", url, bearer=bearer), 403)
    refused(await visitor.send("DELETE", url, bearer=bearer), 429)


async def test_signing_out_on_pages_works_when_looking_is_spent(api: Api) -> None:
    user = await api.account()
    secret = await session_of(api.live, user)
    for _ in range(300):
        await api.live.limiter.take((ACCOUNT_PAGES, user.id), LOOKING, api.clock.now)
    visitor = Visitor(api, HERE)
    assert (await visitor.send("GET", DASHBOARD, cookie=secret)).status_code == 429
    headers = [("content-type", FORM), ("cookie", f"__Host-session={secret}")]
    form = f"csrf={csrf_token(secret)}".encode()
    answer = await InProcess(api).exchange("POST", "/dashboard/sign-out", headers, form)
    assert answer.status_code == 303
    assert await api.live.limiter.used((ACCOUNT_PAGES, user.id), api.clock.now) == (300, 300)
    refused(await visitor.me(cookie=secret), 401)


async def test_failed_sign_outs_use_up_no_later_minute(api: Api) -> None:
    url, stranger = f"{AUTH['live']}/logout", InProcess(api, f"{HERE}:1000")
    visitor = Visitor(api, HERE)
    for _ in range(1_001):
        await visitor.send("POST", url, {"refresh_token": "ort_guessed"})
        headers = [("content-type", FORM), ("origin", "https://localhost:8443")]
        answer = await stranger.exchange("POST", "/dashboard/sign-out", headers, b"csrf=x")
        assert answer.status_code == 303
    counts = [(await api.live.limiter.used((kind, HERE), api.clock.now)) for kind in COUNTED]
    assert counts == [(30, 30), (300, 300)]
    api.clock.advance(seconds=60)
    refused(await visitor.me("dead"), 401)


async def test_pages_in_the_sandbox_count_for_their_account_and_for_none_of_its_number(
    api: Api,
) -> None:
    user = await api.account()
    secret, visitor = await session_of(api.live, user), Visitor(api, HERE)
    for path in ("", "/sandbox/events"):
        assert (await visitor.send("GET", DASHBOARD + path, cookie=secret)).status_code == 200
    who = (ACCOUNT_PAGES, user.id)
    assert await api.live.limiter.used(who, api.clock.now) == (2, 2)
    assert await api.sandbox.limiter.used(who, api.clock.now) == (0, 0)


async def test_authorizing_counts_against_the_address_on_free(api: Api) -> None:
    visitor = Visitor(api, HERE)
    for remaining in range(29, -1, -1):
        answer = await visitor.send("GET", f"{AUTH['live']}/authorize")
        assert (answer.status_code, answer.headers["x-ratelimit-limit"]) == (400, "30")
        assert answer.headers["x-ratelimit-remaining"] == str(remaining)
    assert (await visitor.send("GET", f"{AUTH['live']}/authorize")).status_code == 429
    assert (await visitor.log_in("a@example.com")).status_code == 429
    page = await visitor.send("GET", f"{AUTH['live']}/sign-in")
    assert (page.status_code, page.headers["x-ratelimit-limit"]) == (200, "300")


async def test_an_address_that_has_nothing_left_sends_oauth_no_body(api: Api) -> None:
    shop = await client_of(api.live, await api.account())
    visitor = await exhaust(api)
    huge = {**named(shop), "token": "x" * PUBLIC_BODY_LIMIT}
    oauth_refused(await visitor.form("revoke", huge), 429, "temporarily_unavailable")
    assert await api.live.limiter.used((ADDRESS, HERE), api.clock.now) == (30, 30)


async def test_oauth_counts_in_the_minute_in_which_a_body_ends(api: Api) -> None:
    shop = await client_of(api.live, None, public=True)
    visitor, gate = Visitor(api, HERE), asyncio.Event()
    waiting: list[int] = []

    async def late() -> None:
        waiting.append(1)
        await gate.wait()

    known = urlencode({"token": "x", "client_id": shop.client.client_id}).encode()
    headers = [("content-type", FORM)]
    asked = [
        asyncio.create_task(
            InProcess(api, f"{HERE}:1000").exchange("POST", "/auth/revoke", headers, late, body)
        )
        for body in (known, b"token=x")
    ]
    await eventually(lambda: len(waiting) == len(asked), "the bodies")
    for _ in range(30):
        refused(await visitor.me(), 401)
    api.clock.advance(seconds=60)
    gate.set()
    answers = await asyncio.gather(*asked)
    assert [answer.status_code for answer in answers] == [200, 401]
    for answer in answers:
        assert int(answer.headers["x-ratelimit-reset"]) * 1000 > api.clock.now
    assert await api.live.limiter.used((ADDRESS, HERE), api.clock.now) == (2, 32)


async def test_a_client_counts_for_its_owner_once_and_not_for_its_address(api: Api) -> None:
    owner = await api.account(plan="pro")
    shop = await client_of(api.live, owner)
    visitor = Visitor(api, HERE)
    secret = shop.secret or ""
    basic = (shop.client.client_id, secret)
    for answer in (
        await visitor.form("revoke", {**named(shop), "token": "x"}),
        await visitor.form("revoke", {"token": "x"}, basic=basic),
        await visitor.form("revoke", {"token": "x" * PUBLIC_BODY_LIMIT}, basic=basic),
    ):
        assert answer.headers["x-ratelimit-limit"] == "100"
    assert await api.live.limiter.used((ACCOUNT, owner.id), api.clock.now) == (3, 3)
    assert await api.live.limiter.used((ADDRESS, HERE), api.clock.now) == (0, 0)
    for wrong in ((shop.client.client_id, "wrong"), None):
        answer = await visitor.form("revoke", {"token": "x"}, basic=wrong)
        oauth_refused(answer, 401, "invalid_client")
    assert await api.live.limiter.used((ADDRESS, HERE), api.clock.now) == (2, 2)


async def test_an_exhausted_address_hinders_no_client_that_shows_itself_at_once(api: Api) -> None:
    shop = await client_of(api.live, await api.account())
    visitor = await exhaust(api)
    basic = (shop.client.client_id, shop.secret or "")
    answer = await visitor.form("revoke", {"token": "x"}, basic=basic)
    assert answer.status_code == 200
