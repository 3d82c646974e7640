"""A password is reset by a link that works once, for an hour, and tells strangers nothing."""

from typing import Any

import pytest

from driving import Api
from endings import KEYS, Credentials
from mail.conftest import Post
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.errors import Conflict, Invalid, NotFound
from portico.core.users import User
from portico.environment import Environment
from portico.features.events.audit import Audit
from portico.features.people.accounts import suspend
from portico.features.people.mirrors import mirror_of
from portico.features.people.recovery import ask_reset, give_reset, reset_password
from portico.features.people.storage import Users
from signing_in import PASSWORD, Visitor

pytestmark = pytest.mark.one_engine

STRANGER = Author(Actor(address="192.0.2.7", request_id="req_1"))
NEW = "Chang3dWord"
HOUR = 3600


async def fresh(env: Environment, user: User) -> User:
    """The user as it is stored."""
    found = await env[Users].get(user.id)
    assert found is not None
    return found


async def refused(env: Environment, token: str) -> None:
    """Sees that a token does not reset anything."""
    with pytest.raises(Invalid) as caught:
        await reset_password(env, token, NEW, STRANGER)
    assert "ask for a new one" in caught.value.message


async def test_mailed_reset_link_sets_the_password(api: Api, post: Post) -> None:
    user = await api.account(password=PASSWORD)
    await ask_reset(api.live, user.email.upper(), STRANGER)
    (message,) = await post.new()
    assert message["To"] == user.email
    assert message["Subject"] == "Reset your Portico password"
    body = message.get_body(["plain"])
    assert body is not None
    assert "the IP address 192.0.2.7 on 2026-03-15 at 12:00 UTC" in body.get_content()
    assert "until 2026-03-15 at 13:00 UTC" in body.get_content()
    await ask_reset(api.live, user.email, STRANGER)
    link = await post.link()
    assert link.startswith("https://localhost:8443/dashboard/reset?token=")
    await reset_password(api.live, link.partition("=")[2], NEW, STRANGER)
    visitor = Visitor(api)
    assert (await visitor.log_in(user.email)).status_code == 401
    assert (await visitor.log_in(user.email, NEW)).status_code == 200


@pytest.mark.parametrize("used", ["handed over", "mailed"])
async def test_mailed_reset_leaves_a_handed_over_link_valid(
    api: Api, post: Post, used: str
) -> None:
    user = await api.account(password=PASSWORD)
    await ask_reset(api.live, user.email, STRANGER)
    before = await post.token()
    handed = (await give_reset(api.live, user.id, OPERATOR)).link.partition("=")[2]
    await refused(api.live, before)
    await ask_reset(api.live, user.email, STRANGER)
    replaced = await post.token()
    await ask_reset(api.live, user.email, STRANGER)
    links = {"handed over": handed, "mailed": await post.token()}
    await refused(api.live, replaced)
    await reset_password(api.live, links[used], NEW, STRANGER)
    for token in links.values():
        await refused(api.live, token)


async def test_reset_link_of_suspended_mirror_or_missing_user_is_refused(api: Api) -> None:
    account = await api.account()
    mirror = await mirror_of(api.live, account, STRANGER)
    await suspend(api.live, account.id, OPERATOR)
    for env, user_id, error in (
        (api.live, account.id, Conflict),
        (api.sandbox, mirror.id, Conflict),
        (api.live, 10**6, NotFound),
    ):
        async with api.unchanged():
            with pytest.raises(error):
                await give_reset(env, user_id, OPERATOR)


async def test_reset_is_audited_when_asked_and_used(api: Api, post: Post) -> None:
    user = await api.account()
    await ask_reset(api.live, user.email, STRANGER)
    await reset_password(api.live, await post.token(), NEW, STRANGER)
    used, asked = await api.live[Audit].page(limit=2)
    assert (asked.action, asked.details) == ("link.asked", '{"purpose":"reset"}')
    assert (used.action, used.details) == ("password.reset", "{}")
    for entry in (used, asked):
        assert (entry.target, entry.target_id) == ("user", str(user.id))
        assert (entry.address, entry.request_id) == ("192.0.2.7", "req_1")


async def test_reset_ends_sessions_logins_grants_and_delays_but_no_key(
    api: Api, post: Post
) -> None:
    held = await Credentials.of_new_user(api)
    for _ in range(10):
        assert (await Visitor(api).log_in(held.user.email, "wrong")).status_code == 401
    assert (await Visitor(api).log_in(held.user.email)).status_code == 429
    await ask_reset(api.live, held.user.email, STRANGER)
    await reset_password(api.live, await post.token(), NEW, STRANGER)
    assert await held.valid() == KEYS
    assert (await Visitor(api).log_in(held.user.email, NEW)).status_code == 200


async def test_mailed_reset_verifies_the_e_mail_that_it_was_sent_to(api: Api, post: Post) -> None:
    api.live.has_mail_server = True
    user = await api.account()
    handed = (await give_reset(api.live, user.id, OPERATOR)).link.partition("=")[2]
    await reset_password(api.live, handed, NEW, STRANGER)
    assert (await fresh(api.live, user)).email_verified_at is None, "it was not mailed"
    mirror = await mirror_of(api.live, user, STRANGER)
    await ask_reset(api.live, user.email, STRANGER)
    token = await post.token()
    api.clock.advance(seconds=5)
    await reset_password(api.live, token, NEW, STRANGER)
    stored = await fresh(api.live, user)
    assert stored.email_verified_at == stored.updated_at == api.clock()
    assert (await fresh(api.sandbox, mirror)).email_verified_at == api.clock()


async def test_reset_of_an_unknown_e_mail_or_of_a_mirror_mails_nothing(
    api: Api, post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    account = await api.account()
    await mirror_of(api.live, account, STRANGER)
    async with api.unchanged():
        for email in ("nobody@example.com", "", "\0@example.com", "a" * 70_000):
            await ask_reset(api.live, email, STRANGER)
        await ask_reset(api.sandbox, account.email, STRANGER)
        assert await post.new() == []
    assert caplog.records == []


@pytest.mark.parametrize(
    "change", [{"email": "new@example.com"}, {"password": "An0therWord"}, None], ids=str
)
async def test_new_e_mail_or_password_or_deletion_ends_the_reset_link(
    api: Api, post: Post, change: dict[str, Any] | None
) -> None:
    admin, user = await api.caller("admin"), await api.account()
    handed = (await give_reset(api.live, user.id, OPERATOR)).link.partition("=")[2]
    await ask_reset(api.live, user.email, STRANGER)
    mailed = await post.token()
    where = f"/users/{user.id}"
    answer = await (admin.patch(where, json=change) if change else admin.delete(where))
    assert answer.is_success
    async with api.unchanged():
        for ended in (mailed, handed):
            await refused(api.live, ended)
