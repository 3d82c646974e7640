"""The listeners that serve, and how one follows another when the certificate's files change.

The HTTP server reads a certificate once, so a renewed one is served by a listener of its own. Both
accept from one queue of the kernel, and no connection is lost between them. The earlier one takes
none any more, and then ends as at a stop: it finishes what is under way, and streams go on.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

from portico.app import system_clock
from portico.certificates import CertificateError, inspect
from portico.cli.certificate_checks import out_of_time
from portico.cli.connections import Listener
from portico.cli.trial import require_taken
from portico.domain.times import SECOND

HANDSHAKE_SECONDS = 5.0
"""How long a connection that came before may take to its first request."""

log = logging.getLogger(__name__)

Pair = tuple[Path, Path]
"""The files of a certificate and of its private key."""


class Serving:
    """The listeners that serve, and those that finish what is under way."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.ended: asyncio.Future[BaseException | None] = asyncio.Future()
        """Is there, with what went wrong, once one has ended by itself."""
        self._tasks: dict[Listener, asyncio.Future[None]] = {}
        for listener in listeners:
            self.begin(listener)

    @property
    def tasks(self) -> set[asyncio.Future[None]]:
        """Each is done when its listener has nothing left to finish."""
        return set(self._tasks.values())

    def begin(self, listener: Listener) -> None:
        """Has a listener serve."""
        task = asyncio.ensure_future(listener.serve())
        self._tasks[listener] = task
        task.add_done_callback(partial(self._over, listener))

    def stop(self) -> None:
        """Has all of them take nothing new."""
        for listener in self._tasks:
            listener.stop()

    def _over(self, listener: Listener, task: asyncio.Future[None]) -> None:
        del self._tasks[listener]
        if not listener.interrupt_signal and not self.ended.done():
            self.ended.set_result(task.exception())


class Renewal:
    """Looks at the files of the certificate, and has what is new there served."""

    def __init__(
        self,
        pair: Callable[[], Pair],
        follow: Callable[[Pair, Listener, Callable[[], None]], Listener],
        serving: Serving,
        listener: Listener,
        *,
        local: bool,
        note: Callable[[int], None],
    ) -> None:
        """`pair` checks the files and raises `CertificateError` or `OSError`. `follow` makes the
        listener that takes the place of another, and calls back once it has begun. `listener`
        serves what the files hold now, which is a `local` authority's or the operator's own. `note`
        is told when what is served ends, in milliseconds."""
        self._pair = pair
        self._follow = follow
        self._serving = serving
        self._listener = listener
        self._local = local
        self._note = note
        files = pair()
        self._known, self._served = _content(files), inspect(files[0])
        self._refused = b""
        """What was tried and not taken: it need not be tried again."""
        self._told, self._told_of_time = "", ""

    async def run(self, period: float) -> None:
        """Looks every `period` seconds, until it is cancelled."""
        while True:
            self._note(self._served.expires_at)
            self._tell_of_time()
            await asyncio.sleep(period)
            await self.look()

    async def look(self) -> None:
        """Looks once. What cannot be served changes nothing, and is told once."""
        try:
            pair = await asyncio.to_thread(self._pair)
            content = _content(pair)
            if content == self._refused:
                return
            if content != self._known:
                following = inspect(pair[0])
                await self._try(pair, content)
                await self._exchange(pair)
                self._known, self._served = content, following
                log.info("%s has changed and is served to new connections", pair[0])
            self._told, self._refused = "", b""
        except (CertificateError, OSError) as error:
            if str(error) != self._told:
                self._told = str(error)
                log.error("the certificate served before stays, since %s", error)  # noqa: TRY400 - its line tells all

    def _tell_of_time(self) -> None:
        """Tells that no client takes what is served, or soon none will, once for each number of
        days. A local authority's is renewed before, and that it cannot be is told by itself."""
        said = out_of_time(self._served, system_clock(), last=self._local)
        if said and said != self._told_of_time:
            log.warning("The certificate that is served %s: portico doctor says what to do.", said)
        self._told_of_time = said

    async def _try(self, pair: Pair, content: bytes) -> None:
        _require_in_time(pair[0])  # by a clock that may be set, so it is asked again
        try:
            await asyncio.to_thread(require_taken, *pair)
        except CertificateError:
            self._refused = content
            raise

    async def _exchange(self, pair: Pair) -> None:
        before, begun = self._listener, asyncio.Event()
        leave = before.leaving()
        following = self._follow(pair, before, begun.set)
        self._serving.begin(following)
        await begun.wait()
        if not following.serves:
            following.stop()
            raise CertificateError(f"{pair[0]} is not what the server's TLS library takes")
        self._listener = following
        leave()
        await asyncio.sleep(HANDSHAKE_SECONDS)
        before.stop()


def _require_in_time(certificate: Path) -> None:
    inspection, now = inspect(certificate), system_clock()
    if inspection.expires_at <= now:
        raise CertificateError(f"{certificate} has expired")
    if inspection.starts_at > now:
        starts = datetime.fromtimestamp(inspection.starts_at / SECOND, UTC)
        raise CertificateError(f"{certificate} is not valid before {starts:%Y-%m-%d %H:%M:%S} UTC")


def _content(pair: Pair) -> bytes:
    return sha256(b"\0".join(path.read_bytes() for path in pair)).digest()
