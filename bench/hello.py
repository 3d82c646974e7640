"""The bare application: one fixed JSON body, served by granian as Portico is.

granian's settings are those of `portico serve`, except the timeouts. The application does no
routing, reading or checking, so its rate is the maximum for any application on granian, and Portico
is compared with it.
"""

import argparse
import asyncio
import json
import signal
from pathlib import Path
from typing import Protocol

import uvloop
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.server.embed import Server

from portico.cli.serve import take_turns

HEADERS = [("content-type", "application/json")]


class Responder(Protocol):
    """The part of granian's RSGI protocol object that is used here."""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Sends a whole response."""


def body_of(size: int) -> bytes:
    """A JSON object of exactly `size` bytes (at least 11)."""
    empty = len(json.dumps({"data": ""}))
    return json.dumps({"data": "x" * (size - empty)}).encode()


async def serve(port: int, size: int, certificate: Path | None, key: Path | None) -> None:
    """Serves until SIGTERM."""
    take_turns()
    body = body_of(size)

    async def hello(_scope: object, protocol: Responder) -> None:
        protocol.response_bytes(200, HEADERS, body)

    server = Server(
        hello,
        port=port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=1024,
        backpressure=16_384,
        http1_settings=HTTP1Settings(header_read_timeout=10_000, max_buffer_size=64 * 1024),
        log_enabled=False,
        ssl_cert=certificate,
        ssl_key=key,
        ssl_protocol_min=SSLProtocols.tls12,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)
    await server.serve()


def main() -> None:
    """Reads the command line and serves."""
    parser = argparse.ArgumentParser(description="A fixed JSON body.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True, help="size of the body")
    parser.add_argument("--cert", type=Path)
    parser.add_argument("--key", type=Path)
    given = parser.parse_args()
    uvloop.run(serve(given.port, given.bytes, given.cert, given.key))


if __name__ == "__main__":
    main()
