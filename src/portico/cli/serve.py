"""`portico serve`: one process on one core, or several under a supervisor."""

import asyncio
import errno
import logging
import signal
import socket
from argparse import Namespace
from pathlib import Path

import uvloop
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.server.embed import Server as Granian

from portico import logs
from portico.app import Portico, Server
from portico.cli.initialise import local_certificates, prepare, welcome
from portico.cli.output import CommandError, mention, say
from portico.settings import Settings

HEADER_SECONDS = 10
HEADER_BYTES = 64 * 1024
BACKLOG = 1024
CONNECTIONS = 16_384

log = logging.getLogger(__name__)


def run(settings: Settings, _chosen: Namespace) -> None:
    """Serves until SIGTERM or SIGINT, then finishes what is under way."""
    logs.configure(settings.log_level)
    _check_port(settings)
    facts = uvloop.run(prepare(settings))
    if facts is not None:
        say(welcome(facts))
    uvloop.run(_serve(settings))


def _check_port(settings: Settings) -> None:
    """Workers share their port, so a second server would go unnoticed: see that it is free."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error}"
            raise CommandError(f"{settings.host} port {settings.port} {reason}.") from error


async def _serve(settings: Settings) -> None:
    portico = Portico(settings)
    await portico.open()
    server = Server(portico)
    await server.start()
    granian = _granian(settings, server)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, granian.stop)
    mention(f"Portico serves {settings.base_url} (sandbox: {settings.sandbox_url})")
    try:
        await granian.serve()
    finally:
        await server.stop()
        await portico.close()


def _granian(settings: Settings, server: Server) -> Granian:
    certificate: Path | None = None
    key: Path | None = None
    if settings.tls:
        certificate, key = settings.tls_cert, settings.tls_key
        if certificate is None:
            local = local_certificates(settings)
            certificate, key = local.certificate, local.key
    return Granian(
        server,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=BACKLOG,
        backpressure=CONNECTIONS,
        http1_settings=HTTP1Settings(
            header_read_timeout=HEADER_SECONDS * 1000, max_buffer_size=HEADER_BYTES
        ),
        ssl_cert=certificate,
        ssl_key=key,
        ssl_protocol_min=SSLProtocols.tls12,
        log_enabled=False,
    )
