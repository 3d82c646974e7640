"""An e-mail address is verified by a link that was sent to it, once and within a day."""

import msgspec
import pytest

from driving import Api
from mail.conftest import Post, link, words
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.errors import Invalid
from portico.features.events.audit import Audit
from portico.features.people.mirrors import mirror_of
from portico.features.people.recovery import ask_verification, verify_email
from portico.features.people.storage import Users

pytestmark = pytest.mark.one_engine

BY = Author(Actor(address="2001:db8::", request_id="req_2"))


async def verified_at(api: Api, user_id: int) -> int | None:
    """When the address of an account was verified."""
    user = await api.live[Users].get(user_id)
    assert user is not None
    return user.email_verified_at


async def test_verification_link_verifies_the_e_mail_once(api: Api, post: Post) -> None:
    user = await api.account()
    mirror = await mirror_of(api.live, user, OPERATOR)
    former = msgspec.structs.replace(user, email="before@example.com")
    for about in (former, user):
        await ask_verification(api.live, about, BY)
    (message,) = await post.new()
    assert (message["To"], message["Subject"]) == (
        user.email,
        "Verify your e-mail address for Portico",
    )
    assert "until 2026-03-16 at" in words(message)
    assert "the IP address 2001:db8::" in words(message)
    where, _, token = link(message).partition("?token=")
    assert where == "https://localhost:8443/dashboard/verify"
    api.clock.advance(seconds=60)
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


async def test_link_to_a_former_e_mail_verifies_nothing(api: Api, post: Post) -> None:
    admin = await api.caller("admin")
    for own, new, holds in (
        ("ada@example.com", "new@example.com", False),
        ("bob@straße.example", "bob@strasse.example", False),  # whose domain is another
        ("cyd@example.com", "CYD@example.com", True),
    ):
        user = await api.account(email=own)
        await ask_verification(api.live, user, BY)
        token = await post.token()
        assert (await admin.patch(f"/users/{user.id}", json={"email": new})).status_code == 200
        if holds:
            await verify_email(api.live, token, BY)
        else:
            with pytest.raises(Invalid):
                await verify_email(api.live, token, BY)
        assert (await verified_at(api, user.id) is not None) == holds
