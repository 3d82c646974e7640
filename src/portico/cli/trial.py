"""Whether the server's TLS library takes a certificate and its key.

The library ends the process that serves what it does not take, so a process of its own tries: it
serves at a socket in a directory for itself, and asks there once.
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

from portico.certificates import CertificateError

_SECONDS = 20.0
"""How long a trial may take, on a machine with much else to do."""

_PAUSE_SECONDS = 0.005

_REASON = re.compile(r"`Err` value: (.{1,200})")
"""How the library tells what it does not take."""


class Untried(OSError):
    """A trial has said nothing of a certificate: it took too long, or something ended it."""


def require_taken(certificate: Path, key: Path) -> None:
    """Takes some tenths of a second. Raises `CertificateError` where they cannot be served, and
    `Untried`."""
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
    if done.returncode < 0 and not found:  # as the system does where there is no memory left
        raise Untried(f"{certificate} could not be tried: signal {-done.returncode} ended it")
    if done.returncode:
        reason = f": {found[1]}" if found else ""
        raise CertificateError(
            f"{certificate} and its key are not what the server's TLS library takes{reason}"
        )


class _Nothing:
    """What is never asked."""

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        """See RSGI."""


async def _try(certificate: Path, key: Path, place: Path) -> None:
    """Ends the process."""
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
        except (FileNotFoundError, ConnectionRefusedError):  # it is there before it listens
            if serving.done():
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
    os._exit(0)  # how the server's threads end says nothing of the certificate


if __name__ == "__main__":
    asyncio.run(_try(*map(Path, sys.argv[1:])))
