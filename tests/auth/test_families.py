"""How long tokens renew each other, and with what scopes (decisions §4 and §5)."""

from dataclasses import replace

import pytest

from driving import Api, refused
from owned import grants_of
from portico.features.access.authorization import introspect
from signing_in import Visitor, client_of, login_of, oauth_refused, tokens_of

pytestmark = pytest.mark.one_engine

DAY = 86_400_000
HOUR = 3_600_000
DAYS = 90


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
