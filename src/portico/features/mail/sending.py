"""Sends the waiting mails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from traceback import format_tb

from portico.core.errors import RateLimited, Unavailable
from portico.core.times import DAY
from portico.data import queue
from portico.environment import Environment
from portico.features.mail.letters import Ask, WaitingMail, WrittenBefore, decrypted
from portico.features.mail.storage import Mail, Mails
from portico.features.people.invitations import write_sign_up
from portico.features.people.recovery import write_reset
from portico.features.people.storage import Users
from portico.jobs.queue import CLOSE_SECONDS, Channel, Consumer, Work
from portico.outbound.mail import Undelivered

AT_ONCE = 4
"""The most mails that a process sends at the same time."""

TOLD_AT = 5
"""The attempt, after 12 minutes, whose failure is logged although others follow: otherwise a wrong
setting of the mail server would not be noticed for a day."""

KEPT = DAY
"""How long a mail is tried at most, in milliseconds."""

CLAIM_SECONDS = 60
"""How long a claim lasts: then the mail of a process that died is due again."""

KEEP_SECONDS = 20.0
"""How often the claim of a mail is renewed while the attempt lasts."""

_WRITERS: dict[str, Callable[[Environment, Ask, Mail], Awaitable[None]]] = {
    "reset": write_reset,
    "sign-up": write_sign_up,
}

log = logging.getLogger(__name__)


class SendMails:
    """Sends mails of one environment in one process."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._channel = Channel(AT_ONCE)
        self._consumer = Consumer(
            env,
            env[Mails].queue,
            env[Mails].signal.listener(),
            self._begin,
            claim_seconds=CLAIM_SECONDS,
        )

    async def run(self) -> None:
        """Waits until there may be something to do, then begins to send the due mails. Raises
        `Unavailable`; then the next run does it."""
        await self._consumer.wait()
        await self._claim()

    async def flush(self) -> None:
        """Sends all due mails, and those that result from them; stops after a few seconds."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._claim()
                while self._channel.under_way:
                    await asyncio.wait(self._channel.under_way)
                    await self._claim()
        except TimeoutError:
            pass
        finally:
            await self.close()

    async def close(self) -> None:
        """Waits a little for mails that are being sent, and releases all other claimed ones."""
        await self._consumer.close([self._channel])

    async def _claim(self) -> None:
        self._env[Mails].waiting = await self._env[Mails].count(self._env.db)
        await self._consumer.claim(await self._consumer.due([self._channel]))

    async def _begin(self, mails: list[Mail]) -> list[tuple[Channel, int, Work]]:
        return [(self._channel, mail.id, partial(self._send, mail)) for mail in mails]

    async def _send(self, mail: Mail) -> None:
        """Makes one attempt, and stores its outcome."""
        async with self._consumer.kept(mail.id, KEEP_SECONDS):
            again = await self._attempt(mail)
        await self._consumer.finish(mail.id, again)

    async def _attempt(self, mail: Mail) -> int | None:
        """Writes or sends a mail; returns when the next attempt is due, None if there is none."""
        waiting = decrypted(self._env, mail.content)
        end = mail.created_at + KEPT
        if waiting is not None and waiting.until is not None:
            end = min(end, waiting.until)
        reason, again = None, None
        try:
            # No server was running, or the database was restored from a backup.
            if self._env.clock() >= end:
                reason = "it has waited too long"
            elif waiting is None:
                reason, again = "this server cannot read it", self._next(mail, end)
            elif waiting.ask is not None:
                await _WRITERS[waiting.ask.purpose](self._env, waiting.ask, mail)
            elif waiting.letter is not None and await self._is_there(waiting.letter.user_id):
                await self._env.outlet.send(waiting.letter)
        except Undelivered as error:
            reason = error.reason
            again = None if error.lasting else self._next(mail, end)
        except (RateLimited, WrittenBefore):
            pass  # the requester must not learn whether there is an account
        except Unavailable as error:
            reason, again = error.message, self._next(mail, end)
        except Exception as error:  # noqa: BLE001 - it is logged nowhere else
            # Without its message, which may contain an address.
            reason = f"{type(error).__name__}\n{''.join(format_tb(error.__traceback__))}"
        if reason is not None:
            _log_failure(waiting, reason, again, mail.attempts)
        return again

    async def _is_there(self, user_id: int) -> bool:
        """Whether a letter's user still exists; the id 0 means a person without an account."""
        return not user_id or await self._env[Users].get(user_id) is not None

    def _next(self, mail: Mail, end: int) -> int | None:
        at = queue.MAILS.next(self._env.clock(), mail.attempts)
        return at if at is not None and at < end else None


def _log_failure(
    waiting: WaitingMail | None, reason: str, again: int | None, attempts: int
) -> None:
    """Logs a failed attempt, with neither the address nor the content of the mail."""
    purpose = waiting.purpose if waiting else "unknown"
    user = waiting.letter.user_id if waiting and waiting.letter else "unknown"
    if again is None:
        log.error("the mail %r to user %s was not sent: %s", purpose, user, reason)
    elif attempts == TOLD_AT:
        log.warning("the mail %r to user %s waits: %s", purpose, user, reason)
