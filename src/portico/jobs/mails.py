"""Sends the waiting mails.

Every process of every host does so. A process claims a mail before sending it, so that no other
sends it meanwhile; if the process dies, the mail is due again when the claim ends. So a mail may be
sent twice, but none is lost.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from traceback import format_tb

from portico.domain.errors import RateLimited, Unavailable
from portico.domain.times import DAY, SECOND
from portico.mail.protocol import Undelivered
from portico.services.environment import Environment
from portico.services.post import Ask, WaitingMail, WrittenBefore, decrypted, re_encrypted
from portico.services.recovery import write_reset
from portico.services.sign_up import write_sign_up
from portico.storage.database import Contended
from portico.storage.mails import Mail

AT_ONCE = 4
"""The most mails that a process sends at the same time."""

PAUSES = (2, 15, 120, 600, 1800, 3600)
"""Seconds before the second attempt and each later one; the last pause is repeated."""

TOLD_AT = 5
"""The attempt, after 12 minutes, whose failure is logged although others follow: otherwise a wrong
setting of the mail server would not be noticed for a day."""

KEPT = DAY
"""How long a mail is tried at most, in milliseconds."""

CLAIM_SECONDS = 60
"""How long a claim lasts: then the mail of a process that died is due again."""

KEEP_SECONDS = 20.0
"""How often the claim of a mail is renewed while the attempt lasts."""

POLL_SECONDS = 5.0
"""How often to check for due mails without a bell, such as those that a killed process left."""

DATABASE_RETRY_SECONDS = 1.0
"""How long until the next try after the database did not answer."""

CLOSE_SECONDS = 3.0

_WRITERS: dict[str, Callable[[Environment, Ask, Mail], Awaitable[None]]] = {
    "reset": write_reset,
    "sign-up": write_sign_up,
}

log = logging.getLogger(__name__)


class SendMails:
    """Sends mails of one environment in one process."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._bell = env.mails_bell.listener()
        self._sending: set[asyncio.Task[None]] = set()
        self._beginning: asyncio.Task[float] | None = None
        self._wait = 0.0

    async def run(self) -> None:
        """Waits until there may be something to do, then begins to send the due mails. Raises
        `Unavailable`; then the next run does it."""
        await self._bell.wait(self._wait)
        self._wait = DATABASE_RETRY_SECONDS
        # Shielded: if this run is cancelled, `close` waits until claimed mails are being sent.
        self._beginning = asyncio.create_task(self._begin())
        self._wait = await asyncio.shield(self._beginning)

    async def flush(self) -> None:
        """Sends all due mails, and those that result from them; stops after a few seconds."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                while await self._begin() < POLL_SECONDS and self._sending:
                    await asyncio.wait(self._sending)
        except TimeoutError:
            pass
        finally:
            await self.close()

    async def close(self) -> None:
        """Waits a little for mails that are being claimed or sent, which would otherwise be sent
        twice; then cancels that."""
        if self._beginning is not None:
            await asyncio.wait([self._beginning], timeout=CLOSE_SECONDS)
            self._beginning.cancel()
        sending = set(self._sending)
        if sending:
            await asyncio.wait(sending, timeout=CLOSE_SECONDS)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    async def _begin(self) -> float:
        """Claims due mails for which there is room, and begins to send them. Returns in how many
        seconds more may be due."""
        env, now = self._env, self._env.clock()
        queue = await env.mails.queue()
        env.waiting_mails = queue.length
        due, room = queue.next_attempt_at, AT_ONCE - len(self._sending)
        if due is None or due > now or not room:
            return min(POLL_SECONDS, (due - now) / SECOND) if due and due > now else POLL_SECONDS
        claimed = await env.mails.claim(room, now=now, until=now + CLAIM_SECONDS * SECOND)
        for mail in claimed:
            task = asyncio.create_task(self._send(mail))
            self._sending.add(task)
            task.add_done_callback(self._sent)
        # A due mail that cannot be claimed is being claimed by another process.
        return 0.0 if claimed else DATABASE_RETRY_SECONDS

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.remove(task)
        self._bell.hear()

    async def _send(self, mail: Mail) -> None:
        """Makes one attempt, and stores its outcome."""
        async with asyncio.TaskGroup() as meanwhile:
            keeping = meanwhile.create_task(self._keep(mail))
            again = await self._attempt(mail)
            keeping.cancel()
        while True:
            try:
                await self._store(mail, again)
            except (Unavailable, Contended):
                await asyncio.sleep(DATABASE_RETRY_SECONDS)
            else:
                return

    async def _store(self, mail: Mail, again: int | None) -> None:
        """Stores when a mail is due again, or that it never is, if it is still there."""
        mails, present = self._env.mails, mail
        while not await (mails.remove(present) if again is None else mails.later(present, again)):
            anew = await re_encrypted(self._env, present)
            if anew is None:
                return
            present = anew

    async def _keep(self, mail: Mail) -> None:
        """Renews the claim of a mail, however long its attempt takes."""
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            try:
                await self._store(mail, self._env.clock() + CLAIM_SECONDS * SECOND)
            except Exception as error:  # noqa: BLE001 - whatever it is, the attempt goes on
                log.warning("a mail that is being sent may be sent twice: %s", type(error).__name__)

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
        return not user_id or await self._env.users.get(user_id) is not None

    def _next(self, mail: Mail, end: int) -> int | None:
        pause = PAUSES[min(mail.attempts, len(PAUSES)) - 1]
        at = self._env.clock() + pause * SECOND
        return at if at < end else None


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
