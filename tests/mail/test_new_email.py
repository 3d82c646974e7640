"""An own e-mail changes through a link to the new address, and the old one is told."""

import pytest

from driving import Api
from mail.conftest import Post, link
from pages.visiting import PASSWORD as ON_PAGES
from pages.visiting import said, signed_in
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.errors import Duplicate, Invalid
from portico.core.users import User
from portico.features.events.audit import Audit
from portico.features.people.accounts import suspend
from portico.features.people.invitations import ask_sign_up
from portico.features.people.mirrors import mirror_of
from portico.features.people.recovery import (
    ask_new_email,
    ask_reset,
    ask_verification,
    reset_password,
    take_new_email,
)
from portico.features.people.storage import Users
from portico.features.people.users import read_user
from signing_in import PASSWORD, Visitor

pytestmark = pytest.mark.one_engine

HERE = Author(Actor(address="192.0.2.7", request_id="req_1"))
NEW = "new@example.com"
HOUR = 3600


async def asked(api: Api, post: Post, user: User, email: str = NEW) -> str:
    """The token that is sent to an address that a user wants."""
    await ask_new_email(api.live, user, email, PASSWORD, HERE)
    (message,) = await post.new()
    assert message["To"] == email
    found = link(message)
    assert found.startswith("https://localhost:8443/dashboard/new-email?token=")
    return found.partition("?token=")[2]


async def test_new_e_mail_link_changes_it_and_mails_both_addresses(api: Api, post: Post) -> None:
    api.live.has_mail_server = True
    user = await api.account(password=PASSWORD)
    mirror = await mirror_of(api.live, user, OPERATOR)
    token = await asked(api, post, user)
    assert (await read_user(api.live, user.id)).email == user.email
    api.clock.advance(seconds=24 * HOUR, milliseconds=-1)
    await take_new_email(api.live, token, HERE)
    now = await read_user(api.live, user.id)
    assert (now.email, now.email_verified_at) == (NEW, api.clock())
    mirrored = await api.sandbox[Users].get(mirror.id)
    assert mirrored is not None
    assert (mirrored.email, mirrored.email_verified_at) == (NEW, api.clock())
    messages = await post.new()
    assert {message["To"] for message in messages} == {user.email, NEW}
    for message in messages:
        assert message["Subject"] == "Your Portico account has a new e-mail address"
        body = message.get_body(["plain"])
        assert body is not None
        assert NEW in body.get_content()
    visitor = Visitor(api)
    assert (await visitor.log_in(user.email)).status_code == 401
    assert (await visitor.log_in(NEW)).status_code == 200
    with pytest.raises(Invalid):
        await take_new_email(api.live, token, HERE)


@pytest.mark.parametrize("has_gone_by_mail", [True, False])
async def test_new_e_mail_is_verified_only_by_a_mailed_link(
    api: Api, post: Post, *, has_gone_by_mail: bool
) -> None:
    ada, bob = await api.account(password=PASSWORD), await api.account(password=PASSWORD)
    api.live.has_mail_server = has_gone_by_mail
    new_email = await asked(api, post, ada)
    await ask_reset(api.live, bob.email, HERE)
    reset = await post.token()
    api.live.has_mail_server = not has_gone_by_mail
    await take_new_email(api.live, new_email, HERE)
    await reset_password(api.live, reset, "An0therWord", HERE)
    verified_at = api.clock() if has_gone_by_mail else None
    for user in (ada, bob):
        assert (await read_user(api.live, user.id)).email_verified_at == verified_at


async def test_new_e_mail_needs_the_password(api: Api, post: Post) -> None:
    user = await api.account(password=PASSWORD)
    with pytest.raises(Invalid) as caught:
        await ask_new_email(api.live, user, NEW, "Wr0ngword", HERE)
    assert caught.value.details[0].field == "current_password"
    with pytest.raises(Invalid) as caught:
        await ask_new_email(api.live, user, user.email, PASSWORD, HERE)
    assert caught.value.details[0].field == "email"
    assert await post.new() == []
    (entry,) = await api.live[Audit].page(limit=1)
    assert entry.action == "password.refused"


async def test_link_ends_with_another_link_and_with_a_new_password(api: Api, post: Post) -> None:
    user = await api.account(password=PASSWORD)
    first = await asked(api, post, user)
    second = await asked(api, post, user, "other@example.com")
    with pytest.raises(Invalid):
        await take_new_email(api.live, first, HERE)
    admin = await api.caller("admin")
    changed = await admin.patch(f"/users/{user.id}", json={"password": "An0therWord"})
    assert changed.status_code == 200
    await post.new()
    with pytest.raises(Invalid):
        await take_new_email(api.live, second, HERE)
    await ask_new_email(api.live, user, NEW, PASSWORD, HERE)  # as it was read before
    assert await post.new() == []
    assert (await read_user(api.live, user.id)).email == user.email


async def test_mails_asked_by_strangers_do_not_limit_the_owner(api: Api, post: Post) -> None:
    user = await api.account(password=PASSWORD)
    api.live.sign_up_role = "viewer"
    for _ in range(5):
        await ask_reset(api.live, user.email, HERE)
        await ask_sign_up(api.live, user.email, HERE)
    assert len(await post.new()) == 3 + 3
    for number in range(3):
        await asked(api, post, user, f"new{number}@example.com")
        await ask_verification(api.live, user, HERE)
        assert len(await post.new()) == 1


async def test_new_e_mail_page_beyond_the_rate_limit_says_so(api: Api, post: Post) -> None:
    _, guest = await signed_in(api)
    await post.new()
    fields = {"email": NEW, "current_password": ON_PAGES}
    for _ in range(3):
        assert (await guest.post("/email", **fields)).status_code == 303
        assert (await guest.post("/profile/verification")).status_code == 303
    assert len(await post.new()) == 6
    for path, about in (("/email", fields), ("/profile/verification", {})):
        answer = await guest.post(path, **about)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "3600")
        assert "Too many mails" in (said(answer) or answer.text)
    assert await post.new() == []


async def test_e_mail_changed_by_the_api_mails_both_addresses(api: Api, post: Post) -> None:
    admin, user = await api.caller("admin"), await api.account()
    await admin.patch(f"/users/{user.id}", json={"name": "Another"})
    await admin.patch(f"/users/{user.id}", json={"email": user.email.upper()})
    assert await post.new() == []
    await admin.patch(f"/users/{user.id}", json={"email": NEW})
    assert {message["To"].lower() for message in await post.new()} == {user.email, NEW}


async def test_new_e_mail_taken_or_account_suspended_meanwhile_is_refused_at_the_link(
    api: Api, post: Post
) -> None:
    user, other = await api.account(password=PASSWORD), await api.account()
    token = await asked(api, post, user, other.email)
    async with api.unchanged():
        with pytest.raises(Duplicate):
            await take_new_email(api.live, token, HERE)
    token = await asked(api, post, user)
    await suspend(api.live, user.id, OPERATOR)
    with pytest.raises(Invalid):
        await take_new_email(api.live, token, HERE)
