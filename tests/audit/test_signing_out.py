"""What ends sessions, logins and consents: a new password, signing out everywhere, revocation."""

import pytest

from audit.conftest import Noted
from driving import Api
from endings import KEYS, Credentials
from owned import grants_of, sessions_of
from portico.core.audit import OPERATOR
from portico.core.errors import NotFound
from portico.features.signin.service import (
    end_application,
    end_login,
    end_session,
    sign_out_everywhere,
)

pytestmark = pytest.mark.one_engine


async def test_signing_out_everywhere_leaves_keys_and_perhaps_one_session(
    api: Api, noted: Noted
) -> None:
    held = await Credentials.of_new_user(api)
    kept, _ = await sessions_of(api.live, held.user.id, api.clock())
    await noted()
    ended = await sign_out_everywhere(api.live, held.user.id, OPERATOR, but_session=kept.id)
    assert ended == (1, 2)
    assert await held.valid() == {"other session", *KEYS}
    counts = {"sessions": 1, "grants": 2}
    assert await noted() == [("sign_out.everywhere", "user", str(held.user.id), counts)]
    with pytest.raises(NotFound):
        await sign_out_everywhere(api.live, 10**9, OPERATOR)
    assert await noted() == []


async def test_session_login_or_application_is_ended_for_its_owner_alone(
    api: Api, noted: Noted
) -> None:
    held, other = await Credentials.of_new_user(api), await api.account()
    newest, _ = await sessions_of(api.live, held.user.id, api.clock())
    consent, login = await grants_of(api.live, held.user.id, api.clock())
    if consent.client_row_id is None:
        consent, login = login, consent
    await noted()
    async with api.unchanged():
        for row_id in (newest.id, 10**9):
            with pytest.raises(NotFound):
                await end_session(api.live, row_id, OPERATOR, of_user=other.id)
        for row_id in (login.id, 10**9):
            with pytest.raises(NotFound):
                await end_login(api.live, row_id, OPERATOR, of_user=other.id)
        with pytest.raises(NotFound):
            await end_login(api.live, consent.id, OPERATOR, of_user=held.user.id)
        for shop, user in ((held.shop.client.id, other.id), (10**9, held.user.id)):
            with pytest.raises(NotFound):
                await end_application(api.live, shop, user, OPERATOR)
    assert await noted() == []
    await end_session(api.live, newest.id, OPERATOR, of_user=held.user.id)
    await end_login(api.live, login.id, OPERATOR, of_user=held.user.id)
    await end_application(api.live, held.shop.client.id, held.user.id, OPERATOR)
    owner, client = {"user_id": held.user.id}, held.shop.client
    assert await noted() == [
        ("session.revoked", "session", str(newest.id), owner),
        ("grant.revoked", "grant", str(login.id), {**owner, "client_id": None}),
        (
            "client.access_ended",
            "client",
            client.client_id,
            {**owner, "name": client.name, "grants": 1},
        ),
    ]
    assert await held.valid() == {"session", *KEYS}
    with pytest.raises(NotFound):
        await end_session(api.live, newest.id, OPERATOR)
    with pytest.raises(NotFound):
        await end_login(api.live, login.id, OPERATOR)
    with pytest.raises(NotFound):
        await end_application(api.live, client.id, held.user.id, OPERATOR)
