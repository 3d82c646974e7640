"""A suspended account: nothing that it has opens anything, and nothing is lost."""

import logging

import pytest

from driving import BASE, Api, refused
from mail.conftest import Post
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.errors import Conflict, Invalid
from portico.features.events.audit import Audit, AuditFilter
from portico.features.people.accounts import resume, suspend
from portico.features.people.mirrors import mirror_of, outdated_mirrors
from portico.features.people.recovery import ask_reset, reset_password
from portico.features.people.users import read_user
from signing_in import AUTH, PASSWORD, Visitor, session_of

STRANGER = Author(Actor(address="192.0.2.7", request_id="req_1"))


@pytest.fixture
def post(api: Api) -> Post:
    """The application's mail."""
    return Post(api)


@pytest.mark.one_engine
@pytest.mark.parametrize("url", [f"{AUTH['live']}/login", f"{BASE['live']}/sessions"])
async def test_suspension_is_revealed_by_the_right_password_alone(api: Api, url: str) -> None:
    user = await api.account(password=PASSWORD)
    await suspend(api.live, user.id, OPERATOR)

    async def told(email: str, password: str) -> str:
        body = {"email": email, "password": password}
        answer = await Visitor(api).send("POST", url, body)
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        return str(answer.json()["error"]["message"])

    assert "suspended" in await told(user.email, PASSWORD)
    wrong = await told(user.email, "Wr0ngword")
    assert "suspended" not in wrong
    assert wrong == await told("nobody@example.com", PASSWORD)
    entry = (await api.live[Audit].page(AuditFilter(action="sign_in.refused"), limit=10))[-1]
    assert (entry.target_id, entry.details) == (str(user.id), '{"suspended":true}')


@pytest.mark.one_engine
async def test_suspended_account_gets_no_reset_link_and_loses_the_old_one(
    api: Api, post: Post
) -> None:
    user = await api.account(password=PASSWORD)
    await ask_reset(api.live, user.email, STRANGER)
    token = await post.token()
    await suspend(api.live, user.id, OPERATOR)
    (notice,) = await post.new()
    await ask_reset(api.live, user.email, STRANGER)
    assert await post.new() == []
    await resume(api.live, user.id, OPERATOR)
    with pytest.raises(Invalid):
        await reset_password(api.live, token, "Chang3dWord", STRANGER)
    assert (await Visitor(api).log_in(user.email)).status_code == 200
    assert (notice["To"], notice["Subject"]) == (user.email, "Your Portico account was suspended")


@pytest.mark.one_engine
async def test_repeated_suspension_changes_nothing_and_sends_no_mail(api: Api, post: Post) -> None:
    user = await api.account(password=PASSWORD)
    await suspend(api.live, user.id, OPERATOR)
    assert len(await post.new()) == 1
    api.clock.advance(seconds=1)
    async with api.unchanged():
        await suspend(api.live, user.id, OPERATOR)
    assert await post.new() == []
    await resume(api.live, user.id, OPERATOR)
    async with api.unchanged():
        await resume(api.live, user.id, OPERATOR)


async def test_mirror_is_suspended_with_its_account_and_not_by_itself(api: Api) -> None:
    user = await api.account("editor")
    trial = await api.caller(user=user, key_type="test")
    mirror = await mirror_of(api.live, user, OPERATOR)
    session = await session_of(api.sandbox, mirror)
    assert (await trial.get("/users/me")).status_code == 200
    with pytest.raises(Conflict):
        await suspend(api.sandbox, mirror.id, OPERATOR)
    await suspend(api.live, user.id, OPERATOR)
    assert (await trial.get("/users/me")).status_code == 401
    assert await outdated_mirrors(api.live) == []
    await resume(api.live, user.id, OPERATOR)
    assert (await trial.get("/users/me")).status_code == 200
    visitor = Visitor(api)
    assert (await visitor.me(cookie=session, env="sandbox")).status_code == 401
    actions = [entry.action for entry in await api.sandbox[Audit].page(limit=2)]
    assert actions == ["user.resumed", "user.suspended"]


@pytest.mark.one_engine
async def test_suspension_succeeds_with_a_full_mail_queue(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    user = await api.account()
    monkeypatch.setattr("portico.features.mail.letters.QUEUE", 0)
    await suspend(api.live, user.id, OPERATOR)
    assert (await read_user(api.live, user.id)).suspended_at is not None
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert str(user.id) in record.getMessage()
    assert user.email not in record.getMessage()
