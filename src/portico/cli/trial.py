"""Tries whether granian's TLS library accepts a certificate and its key.

The library ends the process if it does not accept them, so this is tried in a separate process:
it serves on a Unix socket in a temporary directory, and connects to it once.
"""

import asyncio
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from granian.constants import Interfaces
from granian.server.embed import Server

from portico.features.operations.certificates import CertificateError

_SECONDS = 20.0
"""How long a trial may take, even on a busy machine."""

_PAUSE_SECONDS = 0.005

_REASON = re.compile(r"`Err` value: (.{1,200})")
"""The reason in the library's error output."""


class Untried(OSError):
    """A trial had no result: it took too long, or was killed."""


def require_accepted(certificate: Path, key: Path) -> None:
    """Raises `CertificateError` if the certificate and key cannot be served, and `Untried` if the
    trial had no result. Takes some tenths of a second."""
    files = (str(path.absolute()) for path in (certificate, key))
    try:
        with TemporaryDirectory() as directory:
            done = subprocess.run(  # noqa: S603 - our own program
                [sys.executable, "-m", __name__, *files, str(Path(directory, "socket"))],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise Untried(f"{certificate} could not be tried in {_SECONDS:.0f} s") from None
    found = _REASON.search(done.stderr.decode(errors="replace"))
    if done.returncode < 0 and not found:  # for example when memory ran out
        raise Untried(f"{certificate} could not be tried: signal {-done.returncode} ended it")
    if done.returncode:
        reason = f": {found[1]}" if found else ""
        raise CertificateError(
            f"{certificate} and its key are not what the server's TLS library takes{reason}"
        )


class _Nothing:
    """An application that gets no requests."""

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        """Part of the RSGI protocol."""


async def _try(certificate: Path, key: Path, place: Path) -> None:
    """Serves the certificate and connects once, then ends the process."""
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    server = Server(
        _Nothing(),
        uds=place,
        interface=Interfaces.RSGI,
        ssl_cert=certificate,
        ssl_key=key,
        log_enabled=False,
    )
    serving = asyncio.ensure_future(server.serve())
    while True:
        try:
            await asyncio.open_unix_connection(place, ssl=trusting, server_hostname="localhost")
            break
        except (FileNotFoundError, ConnectionRefusedError):  # the socket exists before it listens
            if serving.done():
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
    os._exit(0)  # without waiting for the server's threads, which do not matter here


if __name__ == "__main__":
    asyncio.run(_try(*map(Path, sys.argv[1:])))
