"""Mail waits in the database, encrypted, until it is sent: again where it failed, by one process
each, never without bound, and without a word about to whom."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from driving import Api, at_rest, settings_for
from mail_server import MailServer, serving
from operating import eventually
from portico.core.audit import Actor, Author
from portico.core.errors import Unavailable
from portico.core.users import User
from portico.features.events.audit import Audit
from portico.features.mail.letters import decrypted
from portico.features.mail.sending import AT_ONCE, CLAIM_SECONDS, SendMails
from portico.features.mail.storage import Mails
from portico.features.people.invitations import ask_sign_up
from portico.features.people.recovery import ask_reset, ask_verification
from portico.outbound.mail import Letter, Undelivered
from portico.outbound.smtp import SmtpOutlet

BUSY = "451 4.3.0 ada@example.com must wait"
AWAY = Undelivered("it is away", lasting=False)
STRANGER = Author(Actor(address="192.0.2.7"))


@pytest.fixture
async def quiet(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The application without a server, whose jobs would send: tests do."""
    async with at_rest(settings_for(tmp_path, environ)) as api:
        yield api


class Outbox:
    """Takes every letter, or raises the same for each."""

    def __init__(self, raises: Exception | None = None) -> None:
        self._raises = raises
        self.tried: list[Letter] = []

    async def send(self, letter: Letter) -> None:
        self.tried.append(letter)
        await asyncio.sleep(0)
        if self._raises is not None:
            raise self._raises


def by_smtp(api: Api, server: MailServer) -> None:
    """Lets mails go to a server."""
    api.live.outlet = SmtpOutlet(f"smtp://127.0.0.1:{server.port}", "a@example.org", "Portico")


async def waiting(api: Api) -> int:
    """How many mails wait."""
    return await api.live[Mails].count(api.live.db)


async def next_due(api: Api) -> int | None:
    """When the first mail that waits is due, in epoch milliseconds."""
    return (await api.live[Mails].queue.next_due([({}, 0)])).get(0)


async def somebody(api: Api) -> User:
    """An account with a mail that waits."""
    user = await api.account(email="ada@example.com")
    await ask_verification(api.live, user, STRANGER)
    return user


async def sent(api: Api) -> None:
    """One process sends what is due."""
    await SendMails(api.live).flush()


@pytest.mark.one_engine
async def test_mail_refused_temporarily_is_sent_again(
    quiet: Api, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(MailServer([BUSY] * 3)) as server:
        by_smtp(quiet, server)
        await somebody(quiet)
        await sent(quiet)
        for attempts, seconds in ((1, 2), (2, 15), (3, 120)):
            quiet.clock.advance(seconds=seconds, milliseconds=-1)
            await sent(quiet)
            assert (server.recipients, await waiting(quiet)) == (attempts, 1)
            quiet.clock.advance(milliseconds=1)
            await sent(quiet)
        assert (server.recipients, len(server.received), await waiting(quiet)) == (4, 1, 0)
    assert caplog.records == []


@pytest.mark.one_engine
async def test_mail_given_up_is_logged_by_purpose_and_user_alone(
    quiet: Api, caplog: pytest.LogCaptureFixture
) -> None:
    begun = quiet.clock()
    quiet.live.outlet = Outbox(AWAY)
    user = await somebody(quiet)
    while await waiting(quiet):
        await sent(quiet)
        quiet.clock.now = await next_due(quiet) or quiet.clock.now
    assert 22 * 3600_000 < quiet.clock() - begun < 24 * 3600_000
    warning, error = caplog.records
    assert warning.levelno == logging.WARNING
    assert warning.message == f"the mail 'verify' to user {user.id} waits: it is away"
    assert error.levelno == logging.ERROR
    assert error.message == f"the mail 'verify' to user {user.id} was not sent: it is away"
    assert "example.com" not in caplog.text
    assert "token" not in caplog.text


@pytest.mark.one_engine
async def test_mail_refused_permanently_is_not_tried_again(
    quiet: Api, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(MailServer(["550 5.1.1 no such user"])) as server:
        by_smtp(quiet, server)
        await somebody(quiet)
        await sent(quiet)
    assert (server.recipients, server.received, await waiting(quiet)) == (1, [], 0)
    assert "was not sent: the mail server answered 550" in caplog.text


@pytest.mark.one_engine
async def test_waiting_mail_is_sealed_in_the_database(quiet: Api) -> None:
    user = await somebody(quiet)
    await ask_reset(quiet.live, user.email, STRANGER)
    rows = await quiet.live.db.all("SELECT content FROM mails ORDER BY id")
    letter = decrypted(quiet.live, bytes(rows[0][0]))
    assert letter is not None
    assert letter.letter is not None
    token = letter.letter.text.partition("?token=")[2][:43].encode()
    held = b"".join(bytes(row[0]) for row in rows)
    for trace in (b"token", token, token[:20], b"ada@", b"verify", b"192.0.2.7"):
        assert trace not in held


@pytest.mark.one_engine
async def test_request_for_a_mail_looks_alike_for_known_and_unknown_e_mails(quiet: Api) -> None:
    user = await quiet.account(email="somebody@example.com")
    async with quiet.unchanged():
        await ask_reset(quiet.live, user.email, STRANGER)
        await ask_reset(quiet.live, "anybody1@example.com", STRANGER)
    one, other = await quiet.live.db.all("SELECT content FROM mails ORDER BY id")
    assert len(one[0]) == len(other[0])


class Held(Outbox):
    """Takes a letter only when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.told = asyncio.Event()

    async def send(self, letter: Letter) -> None:
        await super().send(letter)
        await self.told.wait()


async def test_mail_claimed_by_a_slow_process_is_not_claimed_again(
    quiet: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.features.mail.sending.KEEP_SECONDS", 0.01)
    quiet.live.outlet = outbox = Held()
    await somebody(quiet)
    slow = SendMails(quiet.live)
    await slow.run()
    for _ in range(10):
        quiet.clock.advance(seconds=CLAIM_SECONDS - 1)
        until = quiet.clock() + CLAIM_SECONDS * 1000

        async def is_kept(until: int = until) -> bool:
            return await next_due(quiet) == until

        await eventually(is_kept, "another claim")
        await sent(quiet)
    assert len(outbox.tried) == 1
    outbox.told.set()
    await slow.close()
    await sent(quiet)
    assert (len(outbox.tried), await waiting(quiet)) == (1, 0)


async def test_mail_is_sent_by_one_of_several_processes(quiet: Api) -> None:
    users = [await quiet.account() for _ in range(3 * AT_ONCE)]
    quiet.live.outlet = outbox = Outbox()
    for user in users:
        await ask_verification(quiet.live, user, STRANGER)
    await asyncio.gather(*(SendMails(quiet.live).flush() for _ in range(3)))
    await sent(quiet)
    assert sorted(one.to for one in outbox.tried) == sorted(user.email for user in users)
    assert await waiting(quiet) == 0


@pytest.mark.one_engine
async def test_crash_loses_no_mail(api: Api) -> None:
    user = await api.account()
    nowhere = api.settings.data / "log"
    nowhere.write_text("no directory")
    await ask_reset(api.live, user.email, STRANGER)
    await api.crash()
    nowhere.unlink()
    await api.start()
    api.clock.advance(seconds=CLAIM_SECONDS)
    await api.mailed()
    (file,) = nowhere.glob("*.eml")
    assert "/dashboard/reset?token=" in file.read_text()


@pytest.mark.one_engine
async def test_mail_beyond_the_bound_of_waiting_ones_is_refused(
    quiet: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = await quiet.account()
    monkeypatch.setattr("portico.features.mail.letters.QUEUE", 1)
    await ask_reset(quiet.live, user.email, STRANGER)
    async with quiet.unchanged():
        for email in (user.email, "nobody@example.com"):
            with pytest.raises(Unavailable, match="Too many mails"):
                await ask_reset(quiet.live, email, STRANGER)
    assert await waiting(quiet) == 1


async def by_reset(api: Api) -> None:
    """Somebody asks to reset the password of `ada@example.com`."""
    await ask_reset(api.live, "ada@example.com", STRANGER)


async def by_sign_up(api: Api) -> None:
    """Somebody asks for an account of the same e-mail."""
    api.live.sign_up_role = "viewer"
    await ask_sign_up(api.live, "ada@example.com", STRANGER)


@pytest.mark.one_engine
@pytest.mark.parametrize("asks", [by_reset, by_sign_up])
async def test_unanswered_request_for_a_mail_is_retried_and_counted_once(
    quiet: Api, monkeypatch: pytest.MonkeyPatch, asks: Any
) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise Unavailable("The database is busy.")

    quiet.live.outlet = outbox = Outbox()
    if asks is by_reset:
        await quiet.account(email="ada@example.com")
    with monkeypatch.context() as patch:
        await asks(quiet)
        patch.setattr(quiet.live[Audit], "record", away)
        for seconds in (0, 2, 15, 120):
            quiet.clock.advance(seconds=seconds)
            await sent(quiet)
            assert (len(outbox.tried), await waiting(quiet)) == (0, 1)
    quiet.clock.advance(seconds=600)
    await sent(quiet)
    assert (len(outbox.tried), await waiting(quiet)) == (1, 0)
    for _ in range(4):
        await asks(quiet)
        await sent(quiet)
    assert (len(outbox.tried), await waiting(quiet)) == (3, 0)


@pytest.mark.one_engine
async def test_mail_with_an_expired_link_or_older_than_a_day_is_not_sent(
    quiet: Api, caplog: pytest.LogCaptureFixture
) -> None:
    user = await somebody(quiet)
    quiet.live.outlet = outbox = Outbox()
    quiet.clock.advance(days=1)
    await sent(quiet)
    assert (outbox.tried, await waiting(quiet)) == ([], 0)
    await ask_reset(quiet.live, user.email, STRANGER)
    job = SendMails(quiet.live)
    await job.run()
    await job.close()
    assert (outbox.tried, await waiting(quiet)) == ([], 1), "it is written"
    quiet.clock.advance(seconds=3600)
    await sent(quiet)
    assert (outbox.tried, await waiting(quiet)) == ([], 0)
    assert caplog.text.count("was not sent: it has waited too long") == 2
