"""Refreshing, ending and asking about OAuth tokens, and what they open (RFC 6749 §6, 7009, 7662;
OpenID Connect Core §5.3; decisions §5)."""

from dataclasses import replace

import pytest

from driving import BASE, NOON, TINY, Api, refused
from owned import grants_of
from portico.core.audit import Actor, Author
from portico.core.users import User
from portico.features.access.authorization import introspect
from portico.features.access.clients import Registered, change_client
from portico.features.access.tokens import Pair
from portico.features.operations.tidy import Tidy
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
    tokens_of,
)

DAY = 86_400_000
HOUR = 3_600_000
DAYS = 90
LAMP = {"name": "Lamp", "category": "light", "price": 1}


@pytest.fixture
async def ada(api: Api) -> User:
    """An editor."""
    return await api.account("editor", name="Ada Lovelace")


async def bought(api: Api, visitor: Visitor, client: Registered, user: User, scopes: str) -> Pair:
    """Tokens of either kind of client."""
    challenge = CHALLENGE if client.client.public else None
    code = await code_of(api.live, client.client, user, scopes, challenge=challenge)
    more = {"code_verifier": VERIFIER} if challenge else {}
    body = (await visitor.exchange(client, code, **more)).json()
    return Pair(body["access_token"], body["refresh_token"], frozenset())


async def scopes_of(visitor: Visitor, client: Registered, refresh_token: str, **more: str) -> str:
    answer = await visitor.renew(client, refresh_token, **more)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["scope"])


async def test_refresh_rotates_for_either_kind_of_client(
    api: Api, visitor: Visitor, shop: Registered, till: Registered, ada: User
) -> None:
    for client in (shop, till):
        first = await bought(api, visitor, client, ada, "openid read:products")
        answer = await visitor.renew(client, first.refresh_token, scope=" ")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        second = answer.json()
        names = "access_token token_type expires_in refresh_token scope id_token"
        assert second.keys() == {*names.split()}
        assert second["scope"] == "openid read:products"
        assert second["refresh_token"] != first.refresh_token
        for token in (first.access_token, second["access_token"]):
            assert (await visitor.me(token)).status_code == 200


async def test_refresh_token_of_another_client_is_refused(
    api: Api, visitor: Visitor, shop: Registered, till: Registered, ada: User
) -> None:
    tokens = await tokens_of(api.live, shop.client, ada)
    other = await client_of(api.live)
    login = await login_of(api.live, ada)
    async with api.unchanged():
        for client in (other, till):
            answer = await visitor.renew(client, tokens.refresh_token)
            oauth_refused(answer, 400, "invalid_grant")
        for token in (tokens.access_token, login.refresh_token, "ort_", "x"):
            oauth_refused(await visitor.renew(shop, token), 400, "invalid_grant")
    assert (await visitor.renew(shop, tokens.refresh_token)).status_code == 200


@pytest.mark.one_engine
async def test_refresh_may_ask_for_less_and_later_for_all_again(
    api: Api, visitor: Visitor, shop: Registered, ada: User
) -> None:
    tokens = await tokens_of(api.live, shop.client, ada, "openid read:products write:products")
    answer = await visitor.renew(shop, tokens.refresh_token, scope="read:products")
    less = answer.json()
    assert less["scope"] == "read:products"
    url = f"{BASE['live']}/products"
    refused(await visitor.send("POST", url, LAMP, bearer=less["access_token"]), 403)
    all_again = (await visitor.renew(shop, less["refresh_token"])).json()
    assert all_again["scope"] == "openid read:products write:products"
    made = await visitor.send("POST", url, LAMP, bearer=all_again["access_token"])
    assert made.status_code == 201


@pytest.mark.one_engine
async def test_refresh_cannot_ask_for_more(
    api: Api, visitor: Visitor, shop: Registered, ada: User
) -> None:
    tokens = await tokens_of(api.live, shop.client, ada, "read:products openid")
    async with api.unchanged():
        for scope in ("write:products", "email", "admin", '"é'):
            answer = await visitor.renew(shop, tokens.refresh_token, scope=scope)
            oauth_refused(answer, 400, "invalid_scope")
    more = "read:products read:users offline_access"
    renewed = await visitor.renew(shop, tokens.refresh_token, scope=more)
    assert renewed.json()["scope"] == "read:products"
    fewer = {"scopes": "write:products"}
    await change_client(api.live, shop.client.id, fewer, lambda _: None, by=Author(Actor()))
    last = renewed.json()["refresh_token"]
    assert await scopes_of(visitor, shop, last) == "openid", "the client lost one"


async def revoke(visitor: Visitor, client: Registered, token: str, **more: str) -> None:
    answer = await visitor.form("revoke", {"token": token, **named(client), **more})
    assert (answer.status_code, answer.content) == (200, b"{}")
    assert answer.headers["cache-control"] == "no-store"


async def test_revocation_of_another_clients_token_is_refused(
    api: Api, visitor: Visitor, shop: Registered, ada: User
) -> None:
    mine = await tokens_of(api.live, shop.client, ada)
    login = await login_of(api.live, ada)
    other = await client_of(api.live)
    caller = await api.caller("viewer")
    async with api.unchanged():
        for token in (mine.access_token, mine.refresh_token, login.access_token):
            answer = await visitor.form("revoke", {"token": token, **named(other)})
            oauth_refused(answer, 400, "invalid_grant")
        for unknown in (caller.key, "x"):
            await revoke(visitor, other, unknown)
        missing = await visitor.form("revoke", named(other))
        oauth_refused(missing, 400, "invalid_request")
    assert (await visitor.me(mine.access_token)).status_code == 200
    assert (await visitor.me(login.access_token)).status_code == 200


async def asked(visitor: Visitor, client: Registered, token: str) -> dict[str, object]:
    answer = await visitor.form("introspect", {"token": token, **named(client)})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    return dict(answer.json())


@pytest.mark.one_engine
async def test_introspection_describes_a_clients_own_tokens(
    api: Api, visitor: Visitor, shop: Registered, ada: User
) -> None:
    tokens = await tokens_of(api.live, shop.client, ada, "read:products write:products")
    facts = {
        "active": True,
        "scope": "read:products write:products",
        "client_id": shop.client.client_id,
        "sub": str(ada.id),
        "aud": BASE["live"],
        "iss": AUTH["live"],
        "iat": NOON // 1000,
        "auth_time": NOON // 1000,
        "acr": "1",
        "amr": ["pwd"],
    }
    hour = {"token_type": "Bearer", "exp": NOON // 1000 + 3600}
    assert await asked(visitor, shop, tokens.access_token) == facts | hour
    month = {"exp": NOON // 1000 + 30 * 86_400}
    assert await asked(visitor, shop, tokens.refresh_token) == facts | month
    less = (await visitor.renew(shop, tokens.refresh_token, scope="read:products")).json()
    narrow = facts | hour | {"scope": "read:products"}
    assert await asked(visitor, shop, less["access_token"]) == narrow
    # The refresh token still carries all that was granted.
    assert await asked(visitor, shop, less["refresh_token"]) == facts | month
    with_email = await tokens_of(api.live, shop.client, ada, "openid email")
    told = await asked(visitor, shop, with_email.access_token)
    assert (told["username"], told["scope"]) == (ada.email, "openid email")


@pytest.mark.one_engine
async def test_introspection_of_any_other_token_is_inactive(
    api: Api, visitor: Visitor, shop: Registered, till: Registered, ada: User
) -> None:
    mine = await tokens_of(api.live, shop.client, ada)
    public = await visitor.form("introspect", {"token": mine.access_token, **named(till)})
    oauth_refused(public, 401, "invalid_client")
    login = await login_of(api.live, ada)
    of_other = await tokens_of(api.live, (await client_of(api.live)).client, ada)
    caller = await api.caller("viewer")
    renewed = (await visitor.renew(shop, mine.refresh_token)).json()
    tokens = [
        *(of_other.access_token, of_other.refresh_token, login.access_token, login.refresh_token),
        *(caller.key, mine.refresh_token, "x", "oat_x", "ort_x"),
    ]
    async with api.unchanged():
        for token in tokens:
            assert await asked(visitor, shop, token) == {"active": False}
    assert (await asked(visitor, shop, renewed["refresh_token"]))["active"] is True
    api.clock.advance(seconds=3600)
    assert await asked(visitor, shop, renewed["access_token"]) == {"active": False}
    api.clock.advance(days=30)
    assert await asked(visitor, shop, renewed["refresh_token"]) == {"active": False}


@pytest.mark.one_engine
async def test_calls_count_against_owner_client_or_address(api: Api, till: Registered) -> None:
    owner = await api.account(plan=TINY)
    owned, unowned = await client_of(api.live, owner), await client_of(api.live)
    visitor = Visitor(api)
    for client, limit in ((owned, 3), (unowned, 30), (till, 30)):
        for number, path in enumerate(("token", "revoke", "revoke")):
            answer = await visitor.form(path, named(client))
            assert answer.headers["x-ratelimit-limit"] == str(limit)
            assert answer.headers["x-ratelimit-remaining"] == str(limit - 1 - number)
    limited = await visitor.form("token", named(owned))
    oauth_refused(limited, 429, "temporarily_unavailable")
    assert limited.headers["retry-after"] == "60"


async def test_expired_codes_and_tokens_are_deleted(
    api: Api, visitor: Visitor, shop: Registered, ada: User
) -> None:
    await code_of(api.live, shop.client, ada)
    first = await tokens_of(api.live, shop.client, ada)
    api.clock.advance(days=29)
    second = (await visitor.renew(shop, first.refresh_token)).json()
    api.clock.advance(days=2)
    await Tidy(api.live, "test").run()
    held = await api.state()
    assert len(held["live grants"]) == len(held["live tokens"]) == 1
    assert held["live authorization_codes"] == []
    assert (await visitor.renew(shop, second["refresh_token"])).status_code == 200
    api.clock.advance(days=61)
    await Tidy(api.live, "test").run()
    held = await api.state()
    assert held["live grants"] == held["live tokens"] == []


@pytest.mark.one_engine
@pytest.mark.parametrize("setting", [DAYS, 1])
async def test_login_is_renewed_until_its_family_ends(
    api: Api, visitor: Visitor, setting: int
) -> None:
    api.live.settings = replace(api.live.settings, refresh_family_days=setting)
    begun = api.clock()
    ada = await api.account("editor")
    held = (await login_of(api.live, ada)).refresh_token
    while api.clock() + 29 * DAY < begun + setting * DAY:
        api.clock.advance(days=29)
        held = (await visitor.refresh(held)).json()["refresh_token"]
    api.clock.now = begun + setting * DAY - 1
    last = (await visitor.refresh(held)).json()
    api.clock.now = begun + setting * DAY
    async with api.unchanged():
        refused(await visitor.refresh(last["refresh_token"]), 401, "AUTHENTICATION_REQUIRED")
    assert (await visitor.me(last["access_token"])).status_code == 200, "its hour is not over"
    api.clock.now = begun + setting * DAY + HOUR
    refused(await visitor.me(last["access_token"]), 401)
    assert not await grants_of(api.live, ada.id, api.clock())


@pytest.mark.one_engine
async def test_consent_ends_with_its_family_though_the_setting_was_longer_when_it_began(
    api: Api, visitor: Visitor
) -> None:
    ada, shop = await api.account("editor"), await client_of(api.live)
    held = (await tokens_of(api.live, shop.client, ada)).refresh_token
    api.live.settings = replace(api.live.settings, refresh_family_days=7)
    facts = await introspect(api.live, shop.client, held)
    assert facts["exp"] == (api.clock() + 7 * DAY) // 1000
    api.clock.advance(days=7)
    oauth_refused(await visitor.renew(shop, held), 400, "invalid_grant")
    assert await introspect(api.live, shop.client, held) == {"active": False}


@pytest.mark.one_engine
async def test_refresh_regains_granted_scopes_with_the_role(api: Api, visitor: Visitor) -> None:
    admin = await api.caller("admin")
    ada, shop = await api.account("editor"), await client_of(api.live, scopes="admin")
    token = (await tokens_of(api.live, shop.client, ada, "admin")).refresh_token
    for role, scopes in {
        "viewer": "read:users read:products",
        "admin": "read:users read:products write:products",  # no more than the user was asked for
        "editor": "read:users read:products write:products",
    }.items():
        answer = await admin.patch(f"/users/{ada.id}", json={"role": role})
        assert answer.status_code == 200, answer.text
        body = (await visitor.renew(shop, token)).json()
        assert body["scope"] == scopes, role
        token = body["refresh_token"]
