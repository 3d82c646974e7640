"""An invitation makes an account that its owner has chosen the password of, once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from driving import Api
from mail.conftest import Post, words
from owned import set_role
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.errors import Duplicate, Invalid
from portico.core.users import User
from portico.features.access.credentials import Credentials
from portico.features.events.audit import Audit, AuditFilter
from portico.features.people.accounts import suspend
from portico.features.people.invitations import MadeInvitation, accept, find, invite, renew
from portico.features.people.recovery import give_reset, reset_password
from portico.features.people.users import delete_user
from signing_in import session_of

STRANGER = Author(Actor(address="192.0.2.7", request_id="req_1"))
CHOSEN = "Chang3dWord"
DAY = 86_400


async def invited(api: Api, email: str = "Ada@example.com", **more: Any) -> MadeInvitation:
    values: dict[str, Any] = {
        "email": email,
        "role": "editor",
        "plan": "pro",
        "handed_over": True,
        "by": OPERATOR,
    }
    return await invite(api.live, **(values | more))


def token_in(link: str) -> str:
    return link.partition("?token=")[2]


def token_of(made: MadeInvitation) -> str:
    return token_in(made.link)


async def accepted(api: Api, token: str, name: str = "Ada King", password: str = CHOSEN) -> User:
    return await accept(api.live, token, name=name, password=password, by=STRANGER)


async def useless(api: Api, token: str) -> None:
    async with api.unchanged():
        with pytest.raises(Invalid) as caught:
            await accepted(api, token)
    assert "ask for a new one" in caught.value.message


@pytest.mark.one_engine
async def test_deleted_user_of_a_changed_e_mail_cannot_return_by_an_earlier_invitation(
    api: Api,
) -> None:
    made = await invited(api, "ada@example.com", role="admin")
    admin, user = await api.caller("admin"), await api.account(email="before@example.com")
    for email in ("ada@example.com", "other@example.com"):
        changed = await admin.patch(f"/users/{user.id}", json={"email": email})
        assert changed.status_code == 200
    assert (await admin.delete(f"/users/{user.id}")).status_code == 204
    await useless(api, token_of(made))


@pytest.mark.one_engine
@pytest.mark.parametrize("password", ["Password1", "Xx-Lovelace-9"])
async def test_refused_password_does_not_use_up_an_invitation(api: Api, password: str) -> None:
    token = token_of(await invited(api))
    async with api.unchanged():
        with pytest.raises(Invalid) as caught:
            await accepted(api, token, name="Ada Lovelace", password=password)
    assert caught.value.details[0].field == "password"
    assert (await find(api.live, token)).email == "Ada@example.com"


async def test_concurrent_invitations_of_one_e_mail_leave_one(api: Api) -> None:
    results = await asyncio.gather(*(invited(api) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(result, MadeInvitation) for result in results), results
    assert len((await api.state())["live invitations"]) == 1


async def _suspended(api: Api, admin: User) -> None:
    await suspend(api.live, admin.id, OPERATOR)


async def _deleted(api: Api, admin: User) -> None:
    await delete_user(api.live, admin.id, lambda _: None, OPERATOR)


async def _demoted(api: Api, admin: User) -> None:
    await set_role(api.live, admin.email, "editor", OPERATOR)


@pytest.mark.one_engine
@pytest.mark.parametrize("ends", [_suspended, _deleted, _demoted])
async def test_invitations_and_resets_end_with_the_access_of_their_admin(
    api: Api, ends: Callable[[Api, User], Awaitable[None]]
) -> None:
    former, other = await api.account("admin"), await api.account("admin")
    by_former, by_other = (Author(Actor(one.id, one.email)) for one in (former, other))
    invitation = await invited(api, "ada@example.com", role="admin", by=by_former)
    kept = await invited(api, "bo@example.com", by=by_other)
    of_operator = await invited(api, "cy@example.com")
    renewed = await invited(api, "di@example.com", by=by_former)
    renewed = await renew(api.live, renewed.invitation.id, handed_over=True, by=by_other)
    reset = await give_reset(api.live, other.id, by_former)
    reset_kept = await give_reset(api.live, (await api.account()).id, by_other)

    await ends(api, former)

    await useless(api, token_of(invitation))
    for made in (kept, of_operator, renewed):
        await accepted(api, token_of(made))
    async with api.unchanged():
        with pytest.raises(Invalid):
            await reset_password(api.live, token_in(reset.link), CHOSEN, STRANGER)
    await reset_password(api.live, token_in(reset_kept.link), CHOSEN, STRANGER)
    (entry,) = await api.live[Audit].page(AuditFilter(action="invitation.revoked"), limit=9)
    assert entry.target_id == str(invitation.invitation.id)


async def test_admin_suspended_meanwhile_prepares_nothing(api: Api) -> None:
    """Whichever comes first: the other sees it."""
    await api.account("admin")
    target = await api.account()
    for number in range(10):
        former = await api.account("admin")
        cookie = await session_of(api.live, former)
        caller = await Credentials(api.live).look_up_session(cookie, api.clock())
        by = Author(Actor(former.id, former.email), caller)
        await asyncio.gather(
            suspend(api.live, former.id, OPERATOR),
            invited(api, f"ada{number}@example.com", by=by),
            give_reset(api.live, target.id, by),
            return_exceptions=True,
        )
    state = await api.state()
    assert state["live invitations"] == []
    assert state["live email_tokens"] == []


@pytest.mark.one_engine
@pytest.mark.parametrize("handed_over", [False, True])
async def test_mailed_invitation_verifies_the_e_mail_unless_it_was_handed_over(
    api: Api, post: Post, *, handed_over: bool
) -> None:
    api.live.has_mail_server = True
    made = await invited(api, handed_over=handed_over)
    (message,) = await post.new()
    assert (message["To"], message["Subject"]) == ("Ada@example.com", "You are invited to Portico")
    if not handed_over:
        assert "until 2026-03-22 at 12:00 UTC" in words(message)
        assert made.link in words(message)
    verified_at = (await accepted(api, token_of(made))).email_verified_at
    assert verified_at == (None if handed_over else api.clock())


@pytest.mark.one_engine
async def test_renewed_or_repeated_invitation_has_another_link_for_seven_days(api: Api) -> None:
    first = await invited(api, name="Ada")
    api.clock.advance(days=8)
    second = await renew(api.live, first.invitation.id, handed_over=True, by=OPERATOR)
    assert second.invitation.expires_at == api.clock() + 7 * DAY * 1000
    its = second.invitation
    assert (its.email, its.name, its.role, its.plan) == ("Ada@example.com", "Ada", "editor", "pro")
    third = await invited(api, "ADA@example.com", role="viewer")
    for former in (first, second):
        await useless(api, token_of(former))
    assert (await accepted(api, token_of(third))).role == "viewer"


@pytest.mark.one_engine
async def test_invitation_to_a_taken_e_mail_is_refused(api: Api) -> None:
    made = await invited(api)
    await api.account(email="ada@example.com")
    async with api.unchanged():
        with pytest.raises(Duplicate):
            await accepted(api, token_of(made))
        with pytest.raises(Duplicate):
            await invited(api, "ADA@example.com")
