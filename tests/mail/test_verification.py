"""An e-mail address is verified by a link that was sent to it, once and within a day."""

import asyncio
from typing import Any

import msgspec
import pytest

from driving import Api
from mail.conftest import Post
from portico.domain.audit import OPERATOR, Actor, By
from portico.domain.errors import Invalid
from portico.services.mirrors import mirror_of
from portico.services.recovery import ask_verification, verify_email
from portico.storage.audit import AuditFilter

BY = By(Actor(address="2001:db8::", request_id="req_2"))


async def verified_at(api: Api, user_id: int) -> int | None:
    """When the address of an account was verified."""
    user = await api.live.users.get(user_id)
    assert user is not None
    return user.email_verified_at


async def test_the_link_verifies_the_address_once(api: Api, post: Post) -> None:
    user = await api.account()
    mirror = await mirror_of(api.live, user, OPERATOR)
    await ask_verification(api.live, user, BY)
    link = await post.link()
    assert link.startswith("https://localhost:8443/dashboard/verify?token=")
    api.clock.advance(seconds=60)
    token = link.partition("=")[2]
    await verify_email(api.live, token, BY)
    assert await verified_at(api, user.id) == api.clock()
    mirrored = await api.sandbox.users.get(mirror.id)
    assert mirrored is not None
    assert mirrored.email_verified_at == api.clock()
    (entry,) = await api.live.audit.page(limit=1)
    assert (entry.action, entry.target, entry.target_id) == ("email.verified", "user", str(user.id))
    async with api.unchanged():
        with pytest.raises(Invalid):
            await verify_email(api.live, token, BY)


async def test_the_mail_says_what_it_is_about(api: Api, post: Post) -> None:
    user = await api.account()
    await ask_verification(api.live, user, BY)
    (message,) = await post.new()
    assert message["To"] == user.email
    assert message["Subject"] == "Verify your e-mail address for Portico"
    body = message.get_body(["plain"])
    assert body is not None
    for words in (
        "until 2026-03-16 at",
        "the IP address 2001:db8::",
        "If it was not you, ignore this e-mail",
    ):
        assert words in body.get_content()


async def test_the_link_holds_for_a_day_and_not_longer(api: Api, post: Post) -> None:
    one, other = await api.account(), await api.account()
    await ask_verification(api.live, one, BY)
    early = await post.token()
    await ask_verification(api.live, other, BY)
    late = await post.token()
    api.clock.advance(days=1, milliseconds=-1)
    await verify_email(api.live, early, BY)
    assert await verified_at(api, one.id) == api.clock()
    api.clock.advance(milliseconds=1)
    with pytest.raises(Invalid):
        await verify_email(api.live, late, BY)
    assert await verified_at(api, other.id) is None


async def test_of_fifty_uses_at_once_one_verifies(
    api: Api, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.leave_turns(monkeypatch)
    user = await api.account()
    await ask_verification(api.live, user, BY)
    token = await post.token()
    results = await asyncio.gather(
        *(verify_email(api.live, token, BY) for _ in range(50)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["Invalid"] * 49 + ["NoneType"]
    assert len(await api.live.audit.page(AuditFilter(action="email.verified"), limit=100)) == 1


@pytest.mark.parametrize("email", ["new@example.com", "PERSON1@example.com"])
async def test_another_address_is_not_verified_by_the_link_to_the_old_one(
    api: Api, post: Post, email: str
) -> None:
    user = await api.account(email="person1@example.com")
    await ask_verification(api.live, user, BY)
    token = await post.token()
    admin = await api.caller("admin")
    change: dict[str, Any] = {"email": email}
    assert (await admin.patch(f"/users/{user.id}", json=change)).status_code == 200
    if email == "new@example.com":
        with pytest.raises(Invalid):
            await verify_email(api.live, token, BY)
        assert await verified_at(api, user.id) is None
    else:  # the same in another spelling
        await verify_email(api.live, token, BY)
        assert await verified_at(api, user.id) == api.clock()


async def test_no_mail_goes_to_an_address_that_is_another_by_now(api: Api, post: Post) -> None:
    user = await api.account()
    before = msgspec.structs.replace(user, email="before@example.com")
    await ask_verification(api.live, before, BY)
    assert await post.new() == []


async def test_a_verified_address_is_so_no_more_once_it_is_another(api: Api, post: Post) -> None:
    user = await api.account()
    await ask_verification(api.live, user, BY)
    await verify_email(api.live, await post.token(), BY)
    admin = await api.caller("admin")
    await admin.patch(f"/users/{user.id}", json={"name": "Other Name"})
    assert await verified_at(api, user.id) is not None
    await admin.patch(f"/users/{user.id}", json={"email": "new@example.com"})
    assert await verified_at(api, user.id) is None


async def test_an_address_that_only_folds_alike_is_another(api: Api, post: Post) -> None:
    """The domain `straße.example` is not that of whoever has `strasse.example`."""
    user = await api.account(email="ada@straße.example")
    await ask_verification(api.live, user, BY)
    token = await post.token()
    await verify_email(api.live, token, BY)
    await ask_verification(api.live, user, BY)
    token = await post.token()
    admin = await api.caller("admin")
    answer = await admin.patch(f"/users/{user.id}", json={"email": "ada@strasse.example"})
    assert answer.status_code == 200
    assert await verified_at(api, user.id) is None
    with pytest.raises(Invalid):
        await verify_email(api.live, token, BY)
    assert {message["To"] for message in await post.new()} == {
        "ada@xn--strae-oqa.example",
        "ada@strasse.example",
    }
