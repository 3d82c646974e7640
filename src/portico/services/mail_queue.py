"""Mail that is written and sent behind the back of whoever asked for it.

The request is answered before a letter is begun, so neither the answer nor its time tells whether
there was anybody to write to. What waits is in memory: a crash loses it, and people ask again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from traceback import format_tb

from portico.domain.errors import Unavailable
from portico.mail.protocol import Letter, Outlet, Undelivered

QUEUE = 1_000
"""Letters that may wait at once."""

FEW = 50
"""Letters that may wait where others are yet to be posted that can wait."""

AT_ONCE = 4
"""Letters that are handed over at the same time."""

PAUSES = (2.0, 15.0, 120.0)
"""Seconds before the second attempt and each one after it."""

CLOSE_SECONDS = 3.0

Write = Callable[[], Awaitable[Letter | None]]
"""Writes a letter, unless there is nobody to write to."""

log = logging.getLogger(__name__)


class MailQueue:
    """The letters that wait, or are on their way."""

    def __init__(self, outlet: Outlet, *, pauses: Sequence[float] = PAUSES) -> None:
        self._outlet = outlet
        self._pauses = pauses
        self._waiting: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._closing = asyncio.Event()

    def post(self, purpose: str, write: Write) -> None:
        """Has a letter written and sent, soon. `purpose` names it in the log. Raises `Unavailable`
        where too many wait."""
        if len(self._waiting) >= QUEUE:
            raise Unavailable("Too many mails are waiting to be sent.", retry_after=60)
        task = asyncio.create_task(self._deliver(purpose, write))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    @property
    def is_short(self) -> bool:
        """Whether so few wait that what can wait may be posted: a stop sends few."""
        return len(self._waiting) < FEW

    async def close(self) -> None:
        """Makes the attempts that are left at once, and gives up what takes longer than a few
        seconds."""
        self._closing.set()
        if self._waiting:
            _, late = await asyncio.wait(self._waiting, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _deliver(self, purpose: str, write: Write) -> None:
        letter = None
        reason = "the server stops"
        try:
            for pause in (*self._pauses, None):
                try:
                    async with self._room:
                        letter = letter or await write()
                        if letter is not None:
                            await self._outlet.send(letter)
                        return
                except Undelivered as error:
                    reason = error.reason
                    if error.lasting:
                        break
                except Unavailable as error:
                    reason = error.message
                if pause is not None:
                    await self._rest(pause)
        except Exception as error:  # noqa: BLE001 - nobody else would be told
            # Without its message, which may hold an address.
            reason = f"{type(error).__name__}\n{''.join(format_tb(error.__traceback__))}"
        except asyncio.CancelledError:
            self._give_up(purpose, letter, reason)
            raise
        self._give_up(purpose, letter, reason)

    async def _rest(self, seconds: float) -> None:
        """Waits for the next attempt, unless the server stops."""
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return

    @staticmethod
    def _give_up(purpose: str, letter: Letter | None, reason: str) -> None:
        """Says what was not sent: neither to which address, nor what stood in it."""
        user = letter.user_id if letter else "unknown"
        log.error("the mail %r to user %s was not sent: %s", purpose, user, reason)
