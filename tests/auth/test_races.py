"""What is good for one use is good for one, whoever else tries at the same moment."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx
import pytest

from driving import UNMETERED, Api
from passkey_device import Authenticator, owner
from portico.core.audit import OPERATOR
from portico.core.errors import AuthenticationRequired, RateLimited
from portico.core.sessions import BY_PASSKEY
from portico.features.signin.passkeys import check_assertion, request_options
from portico.features.signin.second_factor import check_code
from portico.features.signin.service import Proven
from portico.features.signin.sessions import Browser, open_session
from portico.features.signin.storage import FactorStore
from second_factor import CODES, HERE, Way, factored
from second_factor import code_of as app_code_of
from signing_in import (
    Visitor,
    client_of,
    code_of,
    login_of,
    oauth_refused,
    tokens_of,
)

AT_ONCE = 20
TIMES = 2


@pytest.fixture(autouse=True)
def _in_turns(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.leave_turns(monkeypatch)


@dataclass
class Used:
    """A secret of one use, sent often at once: the responses, and what the tokens are then."""

    use: Callable[[str], Awaitable[httpx.Response]]
    refusal: int
    renew: Callable[[str], Awaitable[httpx.Response]]
    new: Callable[[], Awaitable[tuple[str, list[str]]]]
    """A new secret, and the access tokens that it came with."""


async def used(api: Api, kind: str) -> Used:
    """A user's secrets of one kind."""
    ada = await api.account("editor", plan=UNMETERED)
    shop = await client_of(api.live, ada)
    visitor = Visitor(api)

    async def refresh(token: str) -> httpx.Response:
        # From everywhere: the plan Free allows an address 30 requests a minute.
        return await Visitor(api).refresh(token)

    async def renew(token: str) -> httpx.Response:
        return await visitor.renew(shop, token)

    async def exchange(code: str) -> httpx.Response:
        return await visitor.exchange(shop, code)

    async def new_code() -> tuple[str, list[str]]:
        return await code_of(api.live, shop.client, ada), []

    async def new_tokens() -> tuple[str, list[str]]:
        pair = await tokens_of(api.live, shop.client, ada)
        return pair.refresh_token, [pair.access_token]

    async def new_login() -> tuple[str, list[str]]:
        pair = await login_of(api.live, ada)
        return pair.refresh_token, [pair.access_token]

    return {
        "code": Used(exchange, 400, renew, new_code),
        "refresh token": Used(renew, 400, renew, new_tokens),
        "refresh token of a login": Used(refresh, 401, refresh, new_login),
    }[kind]


@pytest.mark.one_engine
@pytest.mark.parametrize("kind", ["code", "refresh token", "refresh token of a login"])
async def test_concurrent_uses_of_a_secret_succeed_once_and_end_its_family(
    api: Api, kind: str
) -> None:
    secrets = await used(api, kind)
    for number in range(1, TIMES + 1):
        api.clock.advance(seconds=60)  # so that no address has had its requests
        secret, access_tokens = await secrets.new()
        answers = await asyncio.gather(*(secrets.use(secret) for _ in range(AT_ONCE)))
        (success,) = [answer for answer in answers if answer.status_code == 200]
        refusals = [answer for answer in answers if answer is not success]
        assert {answer.status_code for answer in refusals} == {secrets.refusal}
        if secrets.refusal == 400:
            for answer in refusals:
                oauth_refused(answer, 400, "invalid_grant")
        rows = await api.live.db.all("SELECT revoked_at FROM grants")
        assert len(rows) == number
        assert all(row[0] is not None for row in rows)
        bought = success.json()
        for token in (*access_tokens, bought["access_token"]):
            assert (await Visitor(api).me(token)).status_code == 401
        assert (await secrets.renew(bought["refresh_token"])).status_code == secrets.refusal


async def test_concurrent_uses_of_a_second_factors_code_succeed_once(api: Api) -> None:
    hosts = [api, api.beside()]
    user = await factored(api)
    for code in (app_code_of(api), CODES[2]):
        ways = [Way(hosts[number % 2], "/auth/login") for number in range(30)]
        answers = await asyncio.gather(*(way.send(user, code) for way in ways))
        statuses = [answer.status_code for answer in answers]
        assert statuses.count(200) == 1, statuses
        assert set(statuses) <= {200, 401, 429, 503}
        api.clock.advance(days=1)


async def test_concurrent_wrong_codes_are_no_more_than_successive_ones(api: Api) -> None:
    user = await factored(api)
    factors = await api.live[FactorStore].of_user(user.id)
    async with api.live.db.transaction() as tx:
        for _ in range(8):
            await api.live[FactorStore].count_wrong_code(tx, user.id, api.clock())
    guesses = (check_code(api.live, user, factors, "000000", OPERATOR) for _ in range(10))
    ends = [type(end) for end in await asyncio.gather(*guesses, return_exceptions=True)]
    assert sorted(ends, key=repr) == [AuthenticationRequired] * 2 + [RateLimited] * 8
    async with api.live.db.transaction() as tx:
        assert (await api.live[FactorStore].wrong_codes(tx, user.id)).in_a_row == 10


async def test_concurrent_assertions_with_one_count_sign_in_once(api: Api) -> None:
    device = Authenticator()
    await owner(api, device)
    proven = []
    for _ in range(2):
        answer = device.get(json.loads(request_options(api.live, HERE)))
        device.count -= 1
        user, assertion = await check_assertion(api.live, answer, OPERATOR)
        proven.append(Proven(user, BY_PASSKEY, assertion))
    first, second = proven
    await open_session(api.live, first, OPERATOR, Browser("", None))
    async with api.unchanged():
        with pytest.raises(AuthenticationRequired):
            await open_session(api.live, second, OPERATOR, Browser("", None))
