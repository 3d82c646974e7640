"""Mail goes out behind the back of whoever asked: again where it failed, never without bound, and
without a word about to whom."""

import asyncio
import logging
import time

import pytest

from driving import Api
from mail_server import LETTER, MailServer, serving
from portico.domain.audit import Actor, By
from portico.domain.errors import Unavailable
from portico.mail.protocol import Letter
from portico.mail.smtp import SmtpOutlet
from portico.services.mail_queue import CLOSE_SECONDS, QUEUE, MailQueue
from portico.services.recovery import ask_reset

AT_ONCE = (0.0, 0.0, 0.0)
LATE = (3600.0, 3600.0)
BUSY = "451 4.3.0 ada@example.com must wait"


def mail_queue(server: MailServer, pauses: tuple[float, ...] = AT_ONCE) -> MailQueue:
    return MailQueue(SmtpOutlet(f"smtp://127.0.0.1:{server.port}", "a@example.org"), pauses=pauses)


async def letter() -> Letter:
    return LETTER


async def test_a_letter_that_is_refused_for_now_is_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(MailServer([BUSY, BUSY, BUSY])) as server:
        mail_queue(server).post("reset", letter)
        await server.next()
    assert server.recipients == 4
    assert caplog.records == []


async def test_what_cannot_be_sent_is_logged_by_purpose_and_user_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(MailServer([BUSY] * 4)) as server:
        given = mail_queue(server)
        given.post("reset", letter)
        await given.close()
    assert (server.recipients, server.received) == (4, [])
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        "the mail 'reset' to user 7 was not sent: the mail server answered 451 4.3.0"
    ]
    assert "example.com" not in caplog.text
    assert "token" not in caplog.text


async def test_a_refusal_for_good_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(MailServer(["550 5.1.1 no such user"])) as server:
        given = mail_queue(server)
        given.post("verify", letter)
        await given.close()
    assert (server.recipients, server.received) == (1, [])
    assert "the mail 'verify' to user 7 was not sent: the mail server answered 550" in caplog.text


async def test_a_letter_is_written_again_where_the_database_was_away() -> None:
    attempts = 0

    async def write() -> Letter:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise Unavailable("The database is out of reach.")
        return LETTER

    async with serving(MailServer(["450 later"])) as server:
        mail_queue(server).post("reset", write)
        await server.next()
    assert attempts == 3, "once it is written, the same letter is sent again"


async def test_a_fault_of_our_own_is_logged_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def write() -> Letter:
        raise RuntimeError(LETTER.to)

    async with serving(MailServer()) as server:
        given = mail_queue(server)
        given.post("reset", write)
        await given.close()
    assert "the mail 'reset' to user unknown was not sent: RuntimeError" in caplog.text
    assert "in write" in caplog.text, "where it was raised"
    assert "ada@" not in caplog.text


async def test_closing_makes_at_once_the_attempts_that_are_left() -> None:
    async with serving(MailServer([BUSY, BUSY])) as server:
        given = mail_queue(server, LATE)
        given.post("reset", letter)
        await given.close()
    assert len(server.received) == 1


async def test_closing_gives_up_a_letter_that_does_not_come_to_an_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def write() -> Letter:
        await asyncio.Event().wait()
        return LETTER

    async with serving(MailServer()) as server:
        given = mail_queue(server)
        given.post("reset", write)
        started = time.monotonic()
        await given.close()
    assert time.monotonic() - started < CLOSE_SECONDS + 20
    assert "the mail 'reset' to user unknown was not sent: the server stops" in caplog.text


async def test_where_too_many_wait_whoever_asks_is_refused_before_anything_is_stored(
    api: Api,
) -> None:
    user = await api.account()
    gate = asyncio.Event()

    async def write() -> None:
        await gate.wait()

    for _ in range(QUEUE):
        api.portico.mail_queue.post("reset", write)
    async with api.unchanged():
        for email in (user.email, "nobody@example.com"):
            with pytest.raises(Unavailable):
                await ask_reset(api.live, email, By(Actor()))
    gate.set()
    await api.portico.mail_queue.close()
    await ask_reset(api.live, user.email, By(Actor()))
