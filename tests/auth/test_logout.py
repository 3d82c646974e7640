"""Ending a login by one of its tokens (decisions §5)."""

from typing import Any

import httpx
import pytest

from driving import Api, refused
from owned import grants_of
from portico.core.users import User
from portico.features.access.tokens import Pair
from portico.features.events.audit import Audit
from signing_in import AUTH, Visitor, client_of, login_of, session_of, somewhere, tokens_of

pytestmark = pytest.mark.one_engine

HOUR = 3_600
WAYS = ["the access token", "the refresh token", "both"]


async def log_out(
    visitor: Visitor, tokens: Pair, way: str, env: str = "live", **headers: str
) -> httpx.Response:
    """POST /logout."""
    return await visitor.send(
        "POST",
        f"{AUTH[env]}/logout",
        None if way == "the access token" else {"refresh_token": tokens.refresh_token},
        bearer=None if way == "the refresh token" else tokens.access_token,
        **headers,
    )


def done(answer: httpx.Response) -> None:
    """Sees that an answer says nothing but that it is done."""
    assert (answer.status_code, answer.content) == (204, b""), answer.text


@pytest.fixture
async def ada(api: Api) -> User:
    """A user."""
    return await api.account("editor")


@pytest.mark.parametrize("way", WAYS)
async def test_logout_by_an_expired_or_used_token_ends_its_login(
    api: Api, visitor: Visitor, ada: User, way: str
) -> None:
    first = await login_of(api.live, ada)
    renewed = (await visitor.refresh(first.refresh_token)).json()
    api.clock.advance(seconds=HOUR)
    done(await log_out(visitor, first, way))
    refused(await visitor.refresh(renewed["refresh_token"]), 401)
    assert not await grants_of(api.live, ada.id, api.clock())


async def test_logout_by_any_other_token_is_204_and_changes_nothing(
    api: Api, visitor: Visitor, ada: User
) -> None:
    shop = await client_of(api.live)
    consent = await tokens_of(api.live, shop.client, ada)
    elsewhere = await login_of(api.sandbox, await api.account(env=api.sandbox))
    key = (await api.caller(user=ada)).key
    nonsense = Pair("a.b.c", "ort_x", frozenset())
    async with api.unchanged():
        for pair in (consent, elsewhere, nonsense, Pair(key, key, frozenset())):
            for way in WAYS:
                done(await log_out(visitor, pair, way))
    assert (await visitor.me(consent.access_token)).status_code == 200
    assert (await visitor.me(elsewhere.access_token, env="sandbox")).status_code == 200
    assert (await visitor.me(key)).status_code == 200


async def test_logout_without_a_token_is_refused(api: Api, visitor: Visitor, ada: User) -> None:
    url = f"{AUTH['live']}/logout"
    cookie = await session_of(api.live, ada)
    async with api.unchanged():
        refused(await visitor.send("POST", url), 401, "AUTHENTICATION_REQUIRED")
        refused(await visitor.send("POST", url, cookie=cookie), 401, "AUTHENTICATION_REQUIRED")
        answer = await visitor.send("POST", url, authorization="Basic eDp5")
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        bodies: list[Any] = [{}, {"refresh_token": 1}, {"token": "x"}, [], {"refresh_token": None}]
        for body in bodies:
            refused(await visitor.send("POST", url, body), 400, "VALIDATION_ERROR")


async def test_logout_with_an_invalid_body_is_refused(
    api: Api, visitor: Visitor, ada: User
) -> None:
    login = await login_of(api.live, ada)
    bearer = ("authorization", f"Bearer {login.access_token}")
    form = ("content-type", "application/x-www-form-urlencoded")
    async with api.unchanged():
        answer = await somewhere(api).exchange("POST", "/auth/logout", [bearer, form], b"a=b")
        refused(answer, 415)
        sent = {"refresh_token": "x" * 16_385}
        refused(await visitor.send("POST", f"{AUTH['live']}/logout", sent), 413)
    done(await somewhere(api).exchange("POST", "/auth/logout", [bearer, form], b""))
    refused(await visitor.me(login.access_token), 401)
    refused(await visitor.refresh(login.refresh_token), 401)


async def test_logout_is_audited_with_its_user(api: Api, visitor: Visitor, ada: User) -> None:
    login = await login_of(api.live, ada)
    (grant,) = await grants_of(api.live, ada.id, api.clock())
    done(await log_out(visitor, login, "the refresh token"))
    (entry,) = await api.live[Audit].page(limit=1)
    assert (entry.action, entry.target_id) == ("grant.revoked", str(grant.id))
    assert (entry.user_id, entry.email, entry.credential) == (ada.id, ada.email, "jwt")


@pytest.mark.parametrize("way", WAYS)
async def test_repeated_logout_is_204_and_changes_nothing(
    api: Api, visitor: Visitor, way: str
) -> None:
    ada = await api.account(env=api.sandbox)
    login, other = [await login_of(api.sandbox, ada) for _ in range(2)]
    done(await log_out(visitor, login, way, "sandbox"))
    refused(await visitor.me(login.access_token, env="sandbox"), 401)
    async with api.unchanged():
        done(await log_out(visitor, login, way, "sandbox"))
    assert (await visitor.me(other.access_token, env="sandbox")).status_code == 200
