"""An e-mail address is verified by a link that was sent to it, once and within a day."""

from typing import Any

import msgspec
import pytest

from driving import Api
from mail.conftest import Post
from portico.core.audit import OPERATOR, Actor, By
from portico.core.errors import Invalid
from portico.features.events.audit import Audit
from portico.features.people.mirrors import mirror_of
from portico.features.people.recovery import ask_verification, verify_email
from portico.features.people.storage import Users

BY = By(Actor(address="2001:db8::", request_id="req_2"))


async def verified_at(api: Api, user_id: int) -> int | None:
    """When the address of an account was verified."""
    user = await api.live[Users].get(user_id)
    assert user is not None
    return user.email_verified_at


async def test_verification_link_verifies_the_e_mail_once(api: Api, post: Post) -> None:
    user = await api.account()
    mirror = await mirror_of(api.live, user, OPERATOR)
    await ask_verification(api.live, user, BY)
    link = await post.link()
    assert link.startswith("https://localhost:8443/dashboard/verify?token=")
    api.clock.advance(seconds=60)
    token = link.partition("=")[2]
    await verify_email(api.live, token, BY)
    assert await verified_at(api, user.id) == api.clock()
    mirrored = await api.sandbox[Users].get(mirror.id)
    assert mirrored is not None
    assert mirrored.email_verified_at == api.clock()
    (entry,) = await api.live[Audit].page(limit=1)
    assert (entry.action, entry.target, entry.target_id) == ("email.verified", "user", str(user.id))
    async with api.unchanged():
        with pytest.raises(Invalid):
            await verify_email(api.live, token, BY)


async def test_verification_mail_says_its_purpose(api: Api, post: Post) -> None:
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


@pytest.mark.parametrize("email", ["new@example.com", "PERSON1@example.com"])
async def test_link_to_a_former_e_mail_verifies_nothing(api: Api, post: Post, email: str) -> None:
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


async def test_verification_of_a_former_e_mail_is_not_mailed(api: Api, post: Post) -> None:
    user = await api.account()
    before = msgspec.structs.replace(user, email="before@example.com")
    await ask_verification(api.live, before, BY)
    assert await post.new() == []


async def test_changed_e_mail_is_unverified(api: Api, post: Post) -> None:
    user = await api.account()
    await ask_verification(api.live, user, BY)
    await verify_email(api.live, await post.token(), BY)
    admin = await api.caller("admin")
    await admin.patch(f"/users/{user.id}", json={"name": "Other Name"})
    assert await verified_at(api, user.id) is not None
    await admin.patch(f"/users/{user.id}", json={"email": "new@example.com"})
    assert await verified_at(api, user.id) is None


async def test_e_mail_equal_by_folding_alone_is_another(api: Api, post: Post) -> None:
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
