"""What is good for one use is good for one, whoever else tries at the same moment."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import httpx
import pytest

from driving import UNMETERED, Api
from signing_in import (
    AUTH,
    Visitor,
    client_of,
    code_of,
    login_of,
    oauth_refused,
    somewhere,
    tokens_of,
)

AT_ONCE = 50
TIMES = 20
"""Together a thousand tries."""


@pytest.fixture(autouse=True)
def _in_turns(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.leave_turns(monkeypatch)


async def all_at_once(one: Callable[[], Awaitable[httpx.Response]]) -> list[httpx.Response]:
    """The answers to `AT_ONCE` requests that are sent together."""
    return list(await asyncio.gather(*(one() for _ in range(AT_ONCE))))


def only_success(answers: Sequence[httpx.Response], refusal: int) -> httpx.Response:
    """The one answer that is none of refusal; every other must be."""
    (success,) = [answer for answer in answers if answer.status_code == 200]
    assert [answer.status_code for answer in answers].count(refusal) == AT_ONCE - 1
    return success


async def living(api: Api) -> int:
    """How many token families have not been revoked."""
    rows = await api.live.db.all("SELECT id FROM grants WHERE revoked_at IS NULL")
    return len(rows)


async def test_one_code_buys_one_grant_and_a_second_use_ends_it(api: Api) -> None:
    ada = await api.account("editor", plan=UNMETERED)
    shop = await client_of(api.live, ada)
    visitor = Visitor(api)
    for number in range(1, TIMES + 1):
        api.clock.advance(seconds=60)  # so that no address has had its requests
        code = await code_of(api.live, shop.client, ada)

        answers = await all_at_once(lambda code=code: visitor.exchange(shop, code))  # type: ignore[misc]

        bought = only_success(answers, 400).json()
        for answer in answers:
            if answer.status_code != 200:
                oauth_refused(answer, 400, "invalid_grant")
        assert len(await api.live.db.all("SELECT id FROM grants")) == number
        assert await living(api) == 0
        assert (await visitor.me(bought["access_token"])).status_code == 401
        oauth_refused(await visitor.renew(shop, bought["refresh_token"]), 400, "invalid_grant")


async def test_one_refresh_token_has_one_successor_and_then_the_family_is_dead(api: Api) -> None:
    ada = await api.account("editor", plan=UNMETERED)
    shop = await client_of(api.live, ada)
    visitor = Visitor(api)
    for _ in range(TIMES):
        api.clock.advance(seconds=60)
        pair = await tokens_of(api.live, shop.client, ada)

        answers = await all_at_once(
            lambda pair=pair: visitor.renew(shop, pair.refresh_token)  # type: ignore[misc]
        )

        bought = only_success(answers, 400).json()
        assert await living(api) == 0
        for token in (pair.access_token, bought["access_token"]):
            assert (await visitor.me(token)).status_code == 401
        oauth_refused(await visitor.renew(shop, bought["refresh_token"]), 400, "invalid_grant")


async def test_one_login_has_one_successor_and_then_the_family_is_dead(api: Api) -> None:
    ada = await api.account("editor", plan=UNMETERED)
    visitor = Visitor(api)
    for _ in range(TIMES):
        api.clock.advance(seconds=60)
        pair = await login_of(api.live, ada)

        async def refresh(token: str = pair.refresh_token) -> httpx.Response:
            # From everywhere: the plan Free allows an address 30 requests a minute.
            async with httpx.AsyncClient(transport=somewhere(api)) as client:
                body = {"refresh_token": token}
                return await client.post(f"{AUTH['live']}/refresh", json=body)

        bought = only_success(await all_at_once(refresh), 401).json()

        assert await living(api) == 0
        for token in (pair.access_token, bought["access_token"]):
            assert (await visitor.me(token)).status_code == 401
        assert (await refresh(bought["refresh_token"])).status_code == 401
