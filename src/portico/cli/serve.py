"""`portico serve`: checks the settings (`run`), then serves in one process (`serve`) or several."""

import asyncio
import gc
import logging
import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import uvloop
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings, HTTP2Settings

from portico import logs
from portico.app import Portico
from portico.cli.connections import (
    CONNECTION_TIMEOUTS,
    SHARE,
    ConnectionTimeouts,
    Listener,
    Watch,
    file_limit,
    raise_file_limit,
)
from portico.cli.initialise import local_certificates, prepare, show
from portico.cli.lock import only_server, port_fault
from portico.cli.output import INSTALL_OTEL, CommandError, say
from portico.cli.stopping import StopSignals, end_at_once
from portico.cli.supervise import supervise
from portico.cli.trial import Untried, require_accepted
from portico.core.events import MOST_WEBHOOKS
from portico.data.migrate import GrowthError
from portico.features.events.deliveries import AT_ONCE
from portico.features.operations.certificates import CertificateError, check_pair
from portico.features.operations.commands.renewal import Pair, Renewal, Serving
from portico.features.operations.metrics import SharedMetrics
from portico.features.people.passwords import Passwords
from portico.server import Server
from portico.settings import SettingError, Settings

if TYPE_CHECKING:
    from portico.telemetry.sdk import Telemetry

HEADER_BYTES = 64 * 1024
CONNECTIONS = 16_384
"""The most connections at once, without handshakes. Fewer if the system limits open files."""

LEAST_CONNECTIONS = 16
"""With fewer connections, one or two browsers would take them all."""

PLAIN_CONNECTIONS = 256
FILES_KEPT = 128
"""File descriptors reserved for anything but client connections."""

WEBHOOKS = 2 * MOST_WEBHOOKS
"""The most webhooks of both environments."""

DELIVERIES_SHARE = 8
"""Deliveries may take one eighth of the file descriptors, but at least one per webhook."""

YOUNG = 10_000
"""How many new objects trigger a collection of the youngest generation. With Python's default of
700, most of them belong to writes that wait for a commit: they survive, and are traversed again."""

ANSWER_SECONDS = 30.0
"""How long requests under way may take after the server was told to stop."""

LINGER_SECONDS = 2.0
"""Once no request is under way: how long to wait for answers being sent and requests coming in."""

_HTTP2 = HTTP2Settings(
    max_concurrent_streams=32,
    max_headers_size=HEADER_BYTES,
    # How many unread bytes of bodies a client may send, on a connection and for one request.
    initial_connection_window_size=512 * 1024,
    initial_stream_window_size=256 * 1024,
)

log = logging.getLogger(__name__)


def run(settings: Settings, chosen: Namespace) -> None:
    """Serves until SIGTERM or SIGINT, then finishes the requests under way."""
    logs.configure(settings.log_level)
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with only_server(settings.data, settings.host, settings.port):
        for port in filter(None, (settings.port, settings.http_port)):
            if fault := port_fault(settings.host, port):
                raise CommandError(f"{fault.message}: {fault.advice}.")
        if settings.tls_cert:
            _check_certificate(settings)
        if settings.otlp_endpoint:
            _telemetry().require_usable(settings.otlp_endpoint)
        if _connections(settings) < LEAST_CONNECTIONS:
            raise CommandError(
                "The system allows too few open files to serve clients: raise LimitNOFILE of the"
                " service, or ulimit -n, to 512 at least."
            )
        migrates = not chosen.no_migrate
        try:
            asyncio.run(begin(settings, migrates=migrates))
        except GrowthError as error:
            raise CommandError(str(error), exit_code=2) from error
        end_at_once()
        announce = partial(
            _tell, f"Portico serves {settings.base_url} (sandbox: {settings.sandbox_url})"
        )
        if settings.workers == 1:
            uvloop.run(serve(settings, announce, migrates=migrates))
        else:
            asyncio.run(supervise(settings, announce, migrates=migrates))


def _tell(text: str) -> None:
    with suppress(OSError):  # a closed standard output is no reason not to serve
        say(text)


async def begin(settings: Settings, *, migrates: bool = True) -> None:
    """Creates what is missing, such as the first admin, and prints the secrets that are shown once.
    If it is cancelled meanwhile, it still prints the secrets that were stored."""
    facts = await prepare(settings, migrates=migrates)
    if facts is not None:
        show(facts, settings, as_json=False)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def serve(
    settings: Settings,
    listening: Callable[[], None],
    *,
    migrates: bool = True,
    shared: SharedMetrics | None = None,
    lifeline: int | None = None,
    timeouts: ConnectionTimeouts = CONNECTION_TIMEOUTS,
) -> None:
    """Serves in this process until it is told to stop. Calls `listening` once it listens.

    Without `migrates` it answers 503 until another process has migrated the databases. `shared` are
    the metrics of all workers. End of file on the descriptor `lifeline` stops the server, as SIGINT
    does.
    """
    take_turns()
    raise_file_limit()
    portico = Portico(settings, passwords=Passwords(beside_requests=True))
    await portico.connect()
    try:
        if migrates:
            await portico.migrate()
        telemetry = None
        if settings.otlp_endpoint:
            telemetry = _telemetry()(settings.otlp_endpoint, portico.random(16).hex())
        server = Server(portico, shared, telemetry, at_once=_deliveries_at_once())
        starting = asyncio.ensure_future(
            server.start() if migrates else server.start_once_migrated()
        )
        if migrates:
            await starting
        gc.freeze()  # loaded modules stay anyway, and walking them takes 60 ms per collection
        gc.set_threshold(YOUNG)
        try:
            listeners = _listeners(settings, server, listening, timeouts)
            watch = _watch(settings, listeners, timeouts)
            serving = Serving(listeners)
            renewal = asyncio.ensure_future(
                _renew(settings, server, serving, listeners[-1], timeouts)
            )
            await _answer(
                server, serving, starting, watch, renewal, settings.drain_seconds, lifeline
            )
        finally:
            await server.stop()
    finally:
        await portico.close()


def take_turns() -> None:
    """Puts this process and its later threads under `SCHED_BATCH` (sched(7)), so that a thread that
    reads a request does not preempt the one that answers (docs/decisions/measurements.md). Keeps a
    policy that the operator chose for the process. Does nothing on systems without scheduling
    policies."""
    with suppress(AttributeError, OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


async def _renew(
    settings: Settings,
    server: Server,
    serving: Serving,
    listener: Listener,
    timeouts: ConnectionTimeouts,
) -> None:
    """Replaces the HTTPS listener whenever the certificate's files change."""
    if settings.tls:
        follow = partial(_https, settings, server, timeouts)
        local = settings.tls_cert is None
        note = server.serves_certificate_until
        pair = partial(_pair, settings)
        renewal = Renewal(
            pair, follow, serving, listener, local=local, idle=timeouts.idle, note=note
        )
        await renewal.run(timeouts.renewal)


async def _answer(
    server: Server,
    serving: Serving,
    starting: asyncio.Future[None],
    watch: Watch,
    renewing: asyncio.Future[None],
    drain_seconds: int,
    lifeline: int | None,
) -> None:
    """Serves until told to stop, then drains and finishes the requests under way. Raises
    `CommandError` if a listener ends by itself."""
    signals = StopSignals()
    loop = asyncio.get_running_loop()
    if lifeline is not None:
        loop.add_reader(lifeline, signals.interrupt)
    watching = asyncio.ensure_future(watch.run())
    leaving = asyncio.ensure_future(signals.leave.wait())
    awaited: list[asyncio.Future[Any]] = [leaving, serving.ended]
    await asyncio.wait([*awaited, starting], return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        starting.result()  # raises if the start failed
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
    if not leaving.done():
        reason = serving.ended.result() or "see its log"
        raise CommandError(f"The listener ended unexpectedly: {reason}.")
    await _cancel(renewing)  # its listener would not know that clients are to reconnect
    server.leave()
    serving.leave()
    with suppress(TimeoutError):
        await asyncio.wait_for(signals.stop.wait(), drain_seconds)
    if lifeline is not None:
        loop.remove_reader(lifeline)
    await _cancel(starting)
    serving.stop()
    await server.pipeline.streams.stop()
    try:
        await asyncio.wait_for(_finish(server, serving.tasks), ANSWER_SECONDS)
    except TimeoutError:
        log.warning(
            "%d requests were cut off after %.0f s", server.pipeline.under_way, ANSWER_SECONDS
        )
    await _cancel(watching)


async def _cancel(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _finish(server: Server, pending: set[asyncio.Future[None]]) -> None:
    """Waits for the requests under way, but not for clients that have sent half a request."""
    while pending:
        await server.pipeline.answered()
        _, pending = await asyncio.wait(pending, timeout=LINGER_SECONDS)
        if not server.pipeline.under_way:
            return


def _check_certificate(settings: Settings) -> None:
    try:
        require_accepted(*_pair(settings))
    except (CertificateError, Untried) as error:
        raise SettingError(f"tls_cert and tls_key cannot be served: {error}") from error


def _telemetry() -> "type[Telemetry]":
    """The class that exports traces and metrics. It is an extra, loaded only when it is needed."""
    try:
        telemetry: type[Telemetry] = resolve_name("portico.telemetry.sdk:Telemetry")
    except ModuleNotFoundError as error:
        raise SettingError(
            "otlp_endpoint (PORTICO_OTLP_ENDPOINT) needs OpenTelemetry, which is not installed:"
            f" {INSTALL_OTEL}"
        ) from error
    except ValueError as error:  # the SDK checks some variables when it is imported
        raise SettingError(f"the variables OTEL_… cannot be used: {error}") from error
    return telemetry


def _watch(
    settings: Settings, listeners: Sequence[Listener], timeouts: ConnectionTimeouts
) -> Watch:
    most = {
        listener.bind_port: max(
            min(settings.connections_per_address, listener.backpressure // SHARE), 1
        )
        for listener in listeners
    }
    return Watch(most, settings.trusted_proxies, timeouts)


def _connections(settings: Settings) -> int:
    """How many connections HTTPS may have: at most all files but those set apart for other uses."""
    plain = 0 if settings.http_port is None else PLAIN_CONNECTIONS
    deliveries = WEBHOOKS * _deliveries_at_once()
    return min(CONNECTIONS, file_limit() - plain - FILES_KEPT - deliveries)


def _deliveries_at_once() -> int:
    """How many deliveries to one webhook may be under way: slow ones must leave clients room."""
    return max(min(AT_ONCE, file_limit() // DELIVERIES_SHARE // WEBHOOKS), 1)


def _listeners(
    settings: Settings,
    server: Server,
    listening: Callable[[], None],
    timeouts: ConnectionTimeouts,
) -> list[Listener]:
    listeners = []
    if settings.http_port is not None:
        listeners.append(
            Listener(
                server.plain.__rsgi__,
                lambda: None,
                port=settings.http_port,
                backpressure=PLAIN_CONNECTIONS,
                http=HTTPModes.http1,
                http1_settings=_http1(timeouts, keep_alive=False),
                **_shared(settings, timeouts),
            )
        )
    pair = _pair(settings) if settings.tls else None
    # Started last: once it listens, all listeners do.
    listeners.append(_https(settings, server, timeouts, pair, None, listening))
    return listeners


def _https(
    settings: Settings,
    server: Server,
    timeouts: ConnectionTimeouts,
    pair: Pair | None,
    before: Listener | None,
    listening: Callable[[], None],
) -> Listener:
    """The HTTPS listener. Without a `pair` it speaks HTTP to a proxy that terminates TLS."""
    certificate, key = pair or (None, None)
    return Listener(
        server.application.__rsgi__,
        listening,
        port=settings.port,
        backpressure=_connections(settings),
        http=HTTPModes.auto if pair else HTTPModes.http1,
        http1_settings=_http1(timeouts, keep_alive=True),
        http2_settings=_HTTP2,
        ssl_cert=certificate,
        ssl_key=key,
        ssl_protocol_min=SSLProtocols.tls12,
        before=before,
        **_shared(settings, timeouts),
    )


def _shared(settings: Settings, timeouts: ConnectionTimeouts) -> dict[str, Any]:
    """The arguments that all listeners share."""
    return {
        "address": settings.host,
        "interface": Interfaces.RSGI,
        "websockets": False,
        "log_enabled": False,
        "timeouts": timeouts,
    }


def _pair(settings: Settings) -> Pair:
    """The files of the certificate and key, checked. Raises `CertificateError` and `OSError`."""
    if settings.tls_cert and settings.tls_key:
        check_pair(settings.tls_cert, settings.tls_key)
        return settings.tls_cert, settings.tls_key
    local = local_certificates(settings)
    return local.certificate, local.key


def _http1(timeouts: ConnectionTimeouts, *, keep_alive: bool) -> HTTP1Settings:
    return HTTP1Settings(
        # granian has one timeout for the idle time before a request and for its head.
        header_read_timeout=int(timeouts.idle * 1000),
        keep_alive=keep_alive,
        max_buffer_size=HEADER_BYTES,
    )
