"""The listeners that serve, and how a new one replaces another when the certificate's files change.

granian reads a certificate only once, so a renewed one is served by a new listener. Both accept
from one queue of the kernel, so no connection is lost between them. Then the old one stops
accepting, and asks its clients to reconnect. It stops once all connections that are left were idle
for so long that they would end anyway; requests under way are finished, and streams go on.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from portico.app import system_clock
from portico.cli.connections import Listener
from portico.cli.trial import require_accepted
from portico.core.times import SECOND
from portico.features.operations.certificates import CertificateError, inspect, validity_fault

log = logging.getLogger(__name__)

Pair = tuple[Path, Path]
"""The files of a certificate and its private key."""


class Serving:
    """The listeners that serve, and those that still finish their requests."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self.ended: asyncio.Future[BaseException | None] = asyncio.Future()
        """Done once a listener has ended by itself, with its exception, if any."""
        self._tasks: dict[Listener, asyncio.Future[None]] = {}
        for listener in listeners:
            self.begin(listener)

    @property
    def tasks(self) -> set[asyncio.Future[None]]:
        """One task for each listener, done once it has finished its requests."""
        return set(self._tasks.values())

    def begin(self, listener: Listener) -> None:
        """Starts a listener."""
        self._start(listener).add_done_callback(partial(self._over, listener))

    async def add(self, listener: Listener, begun: asyncio.Event) -> None:
        """Starts another listener, and returns once it has `begun`. If it cannot begin, raises
        `OSError`, and the others go on."""
        task = self._start(listener)
        waiting = asyncio.ensure_future(begun.wait())
        either: list[asyncio.Future[Any]] = [task, waiting]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not begun.is_set():
            listener.stop()
            raise OSError(f"another listener could not begin: {task.exception()}")
        task.add_done_callback(partial(self._over, listener))

    def leave(self) -> None:
        """Makes all listeners ask their clients to reconnect."""
        for listener in self._tasks:
            listener.close_connections()

    def stop(self) -> None:
        """Makes all listeners accept nothing new."""
        for listener in self._tasks:
            listener.stop()

    def _start(self, listener: Listener) -> asyncio.Future[None]:
        task = self._tasks[listener] = asyncio.ensure_future(listener.serve())
        task.add_done_callback(lambda _: self._tasks.pop(listener))
        return task

    def _over(self, listener: Listener, task: asyncio.Future[None]) -> None:
        if not listener.interrupt_signal and not self.ended.done():
            self.ended.set_result(task.exception())


class Renewal:
    """Watches the certificate's files, and serves a new certificate."""

    def __init__(
        self,
        pair: Callable[[], Pair],
        follow: Callable[[Pair, Listener, Callable[[], None]], Listener],
        serving: Serving,
        listener: Listener,
        *,
        local: bool,
        idle: float,
        note: Callable[[int], None],
    ) -> None:
        """`pair` returns the checked files, or raises `CertificateError` or `OSError`. `follow`
        makes the listener that replaces another, and calls back once that listens. `listener`
        serves what the files hold now: a certificate of the `local` authority or the operator's
        own. A connection ends after `idle` seconds without a request. `note` is given the time when
        the served certificate expires, in milliseconds."""
        self._pair = pair
        self._follow = follow
        self._serving = serving
        self._listener = listener
        self._local = local
        self._idle = idle
        self._note = note
        files = pair()
        self._known, self._served = _content(files), inspect(files[0])
        self._refused = b""
        """The content that granian's TLS library refused, which is not tried again."""
        self._logged, self._logged_expiry = "", ""

    async def run(self, period: float) -> None:
        """Looks at the files every `period` seconds until it is cancelled."""
        while True:
            self._note(self._served.expires_at)
            self._warn_of_expiry()
            await asyncio.sleep(period)
            await self.look()

    async def look(self) -> None:
        """Looks once. If a new certificate cannot be served, or the system lacks threads or files
        to try it, the old one stays and the error is logged once."""
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
            self._logged, self._refused = "", b""
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may succeed
            reason = str(error) or type(error).__name__
            if reason != self._logged:
                self._logged = reason
                log.error("the certificate served before stays, since %s", reason)  # noqa: TRY400 - the message says it all

    def _warn_of_expiry(self) -> None:
        """Warns if the served certificate has expired or soon will, once for each number of days.
        One of the local authority is renewed before; if that fails, another message says so."""
        fault = validity_fault(self._served, system_clock(), last=self._local)
        if fault and fault != self._logged_expiry:
            log.warning("The certificate that is served %s: portico doctor says what to do.", fault)
        self._logged_expiry = fault

    async def _try(self, pair: Pair, content: bytes) -> None:
        _require_valid_now(pair[0])  # checked every time: the clock may be corrected meanwhile
        try:
            await asyncio.to_thread(require_accepted, *pair)
        except CertificateError:
            self._refused = content
            raise

    async def _exchange(self, pair: Pair) -> None:
        before, begun = self._listener, asyncio.Event()
        hand_over = before.handover()
        following = self._follow(pair, before, begun.set)
        await self._serving.add(following, begun)
        if not following.serves:
            following.stop()
            raise CertificateError(f"{pair[0]} is not what the server's TLS library takes")
        try:
            hand_over()
        except OSError:  # otherwise both would accept, each with another certificate
            following.stop()
            raise
        self._listener = following
        asyncio.get_running_loop().call_later(self._idle, before.stop)


def _require_valid_now(certificate: Path) -> None:
    inspection, now = inspect(certificate), system_clock()
    if inspection.expires_at <= now:
        raise CertificateError(f"{certificate} has expired")
    if inspection.starts_at > now:
        starts = datetime.fromtimestamp(inspection.starts_at / SECOND, UTC)
        raise CertificateError(f"{certificate} is not valid before {starts:%Y-%m-%d %H:%M:%S} UTC")


def _content(pair: Pair) -> bytes:
    return sha256(b"\0".join(path.read_bytes() for path in pair)).digest()
