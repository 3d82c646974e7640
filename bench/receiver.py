"""A minimal and fast receiver of webhooks, which records when each delivery arrived.

GET returns the deliveries since the last GET: `{"count": …, "milliseconds": [from the event's
timestamp to the delivery's first byte, …], "seconds": between the first and the last}`.
"""

import argparse
import asyncio
import json
import re
import ssl
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import uvloop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_AT = re.compile(rb'"timestamp":"([^"]+)"')


class Receiver(asyncio.Protocol):
    """One connection. The deliveries are stored in the class, for all connections."""

    came: list[tuple[float, bytes]]

    def connection_made(self, transport: Any) -> None:
        """See `asyncio.Protocol`."""
        self._transport = transport
        self._buffer = b""
        self._began = 0.0

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._began = self._began or time.time()
        self._buffer += data
        while (head := self._buffer.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._buffer, 0, head)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < end:
                return
            self._answer(self._buffer[:3], self._buffer[head + 4 : end])
            self._buffer = self._buffer[end:]
            self._began = 0.0

    def _answer(self, method: bytes, body: bytes) -> None:
        if method != b"GET":
            self.came.append((self._began or time.time(), body))
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            return
        told = json.dumps(_told(self.came)).encode()
        self.came.clear()
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(told) + told)


def _told(came: list[tuple[float, bytes]]) -> dict[str, object]:
    waits = [
        (at - datetime.fromisoformat(found[1].decode()).timestamp()) * 1000
        for at, body in came
        if (found := _AT.search(body))
    ]
    seconds = came[-1][0] - came[0][0] if came else 0.0
    return {"count": len(came), "milliseconds": waits, "seconds": seconds}


async def _serve(port: int, certificate: Path, key: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    Receiver.came = []
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", port, ssl=tls)
    await server.serve_forever()


def main() -> None:
    """Reads the command line and receives."""
    parser = argparse.ArgumentParser(description="A receiver of webhooks.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cert", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    given = parser.parse_args()
    uvloop.run(_serve(given.port, given.cert, given.key))


if __name__ == "__main__":
    main()
