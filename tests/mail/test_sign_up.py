"""Whoever shows that an e-mail is theirs gets an account, and strangers learn nothing."""

import asyncio
from dataclasses import replace

import pytest

from driving import Api
from mail.conftest import Post, link
from pages.visiting import visitor
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.errors import Invalid, NotFound, RateLimited
from portico.features.people.accounts import suspend
from portico.features.people.invitations import accept, ask_sign_up, invite
from portico.features.people.recovery import (
    ask_new_email,
    ask_reset,
    ask_verification,
    reset_password,
    take_new_email,
    verify_email,
)
from portico.features.people.users import read_user
from signing_in import Visitor

pytestmark = pytest.mark.one_engine

CHOSEN = "Chang3dWord"
NEW = "new@example.com"
HOUR = 3600


def at(number: int = 7) -> Author:
    return Author(Actor(address=f"192.0.2.{number}", request_id="req_1"))


@pytest.fixture(autouse=True)
def open_to_all(api: Api) -> None:
    api.live.sign_up_role = "viewer"


async def test_sign_up_makes_a_free_account_with_the_set_role_and_verified_e_mail(
    api: Api, post: Post
) -> None:
    api.live.has_mail_server = True
    api.live.sign_up_role = "editor"
    guest = await visitor(api)
    answer = await guest.send("/sign-up", {"email": NEW}, accept_language="de-AT,de;q=0.9,en;q=0.8")
    assert answer.status_code == 303
    (message,) = await post.new()
    assert (message["To"], message["Subject"]) == (NEW, "Ihr Konto bei Portico")
    assert (await api.state())["live users"] == []
    token = link(message).partition("?token=")[2]
    user = await accept(api.live, token, name="New", password=CHOSEN, by=at())
    assert (user.email, user.role, user.plan) == (NEW, "editor", "free")
    assert user.email_verified_at == api.clock()
    assert (await Visitor(api).log_in(NEW, CHOSEN)).status_code == 200


async def test_only_a_verification_link_verifies_without_mail_server(api: Api, post: Post) -> None:
    await ask_sign_up(api.live, NEW, at())
    user = await accept(api.live, await post.token(), name="New", password=CHOSEN, by=at())
    assert user.email_verified_at is None
    await ask_reset(api.live, NEW, at())
    await reset_password(api.live, await post.token(), "An0therWord", at())
    user = await read_user(api.live, user.id)
    assert user.email_verified_at is None
    await ask_new_email(api.live, user, "newer@example.com", "An0therWord", at())
    await take_new_email(api.live, await post.token(), at())
    user = await read_user(api.live, user.id)
    assert (user.email, user.email_verified_at) == ("newer@example.com", None)
    await ask_verification(api.live, user, at())
    await verify_email(api.live, await post.token(), at())
    assert (await read_user(api.live, user.id)).email_verified_at == api.clock()


async def test_sign_up_of_an_existing_account_is_answered_by_mail_alone(
    api: Api, post: Post
) -> None:
    user, shut = await api.account(), await api.account()
    await suspend(api.live, shut.id, OPERATOR)
    await post.new()
    async with api.unchanged():
        for email in (user.email.upper(), shut.email):
            await ask_sign_up(api.live, email, at())
        (message,) = await post.new()
    assert message["Subject"] == "You already have a Portico account"
    assert link(message) == "https://localhost:8443/dashboard/sign-in"


async def test_sign_up_of_a_folded_e_mail_mails_the_stored_address(api: Api, post: Post) -> None:
    """The domain `straße.example` is not that of whoever has `strasse.example`."""
    await api.account(email="ada@strasse.example")
    email = "bob@strasse.example"
    await invite(api.live, email=email, role="editor", plan="pro", handed_over=True, by=OPERATOR)
    await post.new()
    told: dict[str, str] = {}
    for name in ("ada", "bob"):
        await ask_sign_up(api.live, f"{name}@straße.example", at())
        told |= {message["To"]: message["Subject"] for message in await post.new()}
    assert told == {
        "ada@strasse.example": "You already have a Portico account",
        "bob@strasse.example": "You are already invited to Portico",
    }


async def test_sign_up_leaves_an_admins_invitation_valid(api: Api, post: Post) -> None:
    made = await invite(
        api.live, email=NEW, role="editor", plan="pro", handed_over=True, by=OPERATOR
    )
    async with api.unchanged():
        await ask_sign_up(api.live, NEW, at())
        (message,) = await post.new()
    assert message["Subject"] == "You are already invited to Portico"
    token = made.link.partition("?token=")[2]
    user = await accept(api.live, token, name="New", password=CHOSEN, by=at())
    assert user.role == "editor"
    # An invitation that has expired holds nobody up.
    await invite(
        api.live, email="b@x.com", role="editor", plan="pro", handed_over=True, by=OPERATOR
    )
    api.clock.advance(days=7)
    await ask_sign_up(api.live, "b@x.com", at())
    assert "Your Portico account" in {message["Subject"] for message in await post.new()}


async def test_sign_up_mails_of_an_e_mail_are_limited_to_three_an_hour(
    api: Api, post: Post
) -> None:
    user = await api.account()
    for email in (NEW, user.email):
        for number in range(5):
            await ask_sign_up(api.live, email.upper() if number % 2 else email, at(number))
        assert len(await post.new()) == 3
    api.clock.advance(seconds=HOUR)
    await ask_sign_up(api.live, NEW, at())
    assert len(await post.new()) == 1


async def test_sign_ups_of_an_address_are_limited_to_ten_an_hour(api: Api, post: Post) -> None:
    here = Author(Actor(address="2001:db8:1:1::"))
    neighbour = Author(Actor(address="2001:db8:1:2::"))
    results = await asyncio.gather(
        *(ask_sign_up(api.live, f"n{n}@example.com", here) for n in range(9)),
        *(ask_sign_up(api.live, f"m{n}@example.com", neighbour) for n in range(9)),
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, RateLimited)]
    assert (len(refused), refused[0].retry_after) == (8, HOUR)
    assert len(await post.new()) == 10
    await ask_sign_up(api.live, NEW, at())
    assert len(await post.new()) == 1


async def test_sign_up_of_another_domain_is_refused(api: Api, post: Post) -> None:
    api.live.settings = replace(
        api.live.settings, sign_up_domains=("example.com", "xn--bcher-kva.example")
    )
    for email in ("new@other.com", "new@sub.example.com", "new@example.com.evil.test"):
        with pytest.raises(Invalid) as caught:
            await ask_sign_up(api.live, email, at())
        assert "example.com or xn--" in caught.value.details[0].message
    for email in ("new@example.com", "new@bücher.example"):
        await ask_sign_up(api.live, email, at())
    assert len(await post.new()) == 2


async def test_sign_up_link_works_only_while_sign_up_is_open_to_its_domain(
    api: Api, post: Post
) -> None:
    await ask_sign_up(api.live, NEW, at())
    token = await post.token()
    for role, domains in ((None, ()), ("viewer", ("other.com",))):
        api.live.sign_up_role = role
        api.live.settings = replace(api.live.settings, sign_up_domains=domains)
        async with api.unchanged():
            with pytest.raises(Invalid):
                await accept(api.live, token, name="New", password=CHOSEN, by=at())
            with pytest.raises(Invalid if role else NotFound):
                await ask_sign_up(api.live, NEW, at())
    assert await post.new() == []
    api.live.settings = replace(api.live.settings, sign_up_domains=("other.com", "example.com"))
    await accept(api.live, token, name="New", password=CHOSEN, by=at())
