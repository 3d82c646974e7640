"""Which requests count against whom where that is not plain: OAuth, authorizing, signing out."""

import pytest

from driving import BASE, TINY, Api, refused
from portico.limits.protocol import ACCOUNT, ADDRESS
from portico.web.routing import PUBLIC_BODY_LIMIT
from signing_in import (
    AUTH,
    CHALLENGE,
    VERIFIER,
    Visitor,
    client_of,
    code_of,
    login_of,
    named,
    oauth_refused,
    session_of,
    tokens_of,
)

pytestmark = pytest.mark.one_engine

HERE = "192.0.2.1"


async def exhaust(api: Api) -> Visitor:
    """Somebody whose address has nothing left."""
    visitor = Visitor(api, HERE)
    for _ in range(30):
        refused(await visitor.me(), 401)
    refused(await visitor.me(), 429)
    return visitor


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
    async with api.unchanged():
        for bearer in ("guessed", ended.access_token, consent.access_token):
            refused(await visitor.send("POST", url, bearer=bearer), 429, "RATE_LIMITED")
        answer = await visitor.send("POST", url, {"refresh_token": "ort_guessed"})
        refused(answer, 429, "RATE_LIMITED")
    assert await api.live.limiter.used((ADDRESS, HERE), api.clock.now) == (30, 30)
    api.clock.advance(seconds=60)
    refused(await visitor.me("dead"), 401)


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


async def test_an_address_that_has_nothing_left_sends_oauth_no_body_unless_it_authenticates(
    api: Api,
) -> None:
    shop = await client_of(api.live, await api.account())
    visitor = await exhaust(api)
    huge = {**named(shop), "token": "x" * PUBLIC_BODY_LIMIT}
    oauth_refused(await visitor.form("revoke", huge), 429, "temporarily_unavailable")
    assert await api.live.limiter.used((ADDRESS, HERE), api.clock.now) == (30, 30)
    basic = (shop.client.client_id, shop.secret or "")
    assert (await visitor.form("revoke", {"token": "x"}, basic=basic)).status_code == 200


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


async def test_public_client_counts_for_the_user_of_a_good_code_or_refresh_token(api: Api) -> None:
    user = await api.account(plan=TINY)
    till, other = [await client_of(api.live, public=True) for _ in range(2)]
    visitor, basic = Visitor(api, HERE), (till.client.client_id, "")

    async def used() -> tuple[int, int]:
        limiter, now = api.live.limiter, api.clock.now
        of_user = await limiter.used((ACCOUNT, user.id), now)
        return of_user[0], (await limiter.used((ADDRESS, HERE), now))[0]

    codes = [await code_of(api.live, till.client, user, challenge=CHALLENGE) for _ in range(2)]
    first = await visitor.exchange(till, codes[0], code_verifier=VERIFIER)
    assert (first.headers["x-ratelimit-limit"], await used()) == ("3", (1, 0))
    form = {"grant_type": "refresh_token", "refresh_token": first.json()["refresh_token"]}
    oauth_refused(await visitor.form("token", {**named(other), **form}), 400, "invalid_grant")
    assert await used() == (1, 1)
    second = await visitor.form("token", form, basic=basic)
    assert (second.status_code, await used()) == (200, (2, 1))
    last = second.json()["refresh_token"]
    assert (await visitor.form("revoke", {**named(till), "token": last})).status_code == 200
    for spent in (codes[0], "oac_guessed"):
        answer = await visitor.exchange(till, spent, code_verifier=VERIFIER)
        oauth_refused(answer, 400, "invalid_grant")
    oauth_refused(await visitor.renew(till, last), 400, "invalid_grant")
    assert await used() == (2, 5)
    assert (await visitor.exchange(till, codes[1], code_verifier=VERIFIER)).status_code == 200
    more = await visitor.exchange(till, codes[1], code_verifier=VERIFIER)
    oauth_refused(more, 400, "invalid_grant")
    assert await used() == (3, 6)
    another = await code_of(api.live, till.client, user, challenge=CHALLENGE)
    async with api.unchanged():
        limited = await visitor.exchange(till, another, code_verifier=VERIFIER)
        oauth_refused(limited, 429, "temporarily_unavailable")
    assert await used() == (3, 6)
