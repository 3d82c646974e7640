"""Mail to a server that speaks SMTP (RFC 6409), over TLS wherever it leaves this host."""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from aiosmtplib import (
    SMTP,
    SMTPDataError,
    SMTPException,
    SMTPNotSupported,
    SMTPRecipientRefused,
    SMTPRecipientsRefused,
    SMTPResponse,
    SMTPResponseException,
)

from portico.domain.networks import is_loopback
from portico.domain.users import mail_domain, mailbox
from portico.mail.message import compose
from portico.mail.protocol import Letter, Undelivered

SECONDS = 20.0
"""How long it may take until a letter is offered to the server, from connecting on."""

TAKING_SECONDS = 600.0
"""How long the server may take to say that it has a letter, which it may be looking through for
viruses (RFC 5321 §4.5.3.2.6): whoever hangs up earlier sends it again, and it comes twice."""

GOODBYE_SECONDS = 1.0

_PATIENCE = {
    "TCP_KEEPIDLE": 20,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 40_000,
}
"""After how many seconds of silence a server is asked whether it is there, how often, and how many
questions it may leave unanswered; and for how many milliseconds what it is sent, during which it is
not asked (tcp(7)). macOS knows the first by another name, and has not the last."""

_OF_THE_LETTER = (SMTPRecipientRefused, SMTPDataError)
"""What a server says of a letter; all else, as of a password, it says of how it is asked."""


class _Session(SMTP):
    """A connection, with a limit to all that is said over it."""

    limit: asyncio.Timeout

    async def data(self, message: str | bytes, /, **_: object) -> SMTPResponse:
        """See `SMTP`."""
        self.limit.reschedule(asyncio.get_running_loop().time() + TAKING_SECONDS)
        return await super().data(message, timeout=TAKING_SECONDS)


class SmtpOutlet:
    """Hands letters to a mail server, each over a connection of its own.

    Certificates are verified against the system's authorities.
    """

    def __init__(self, url: str, sender: str, *, seconds: float = SECONDS) -> None:
        """`url` is as `settings.values.mail_server` reads it, `sender` the address that mails come
        from."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        self._sender = sender
        self._seconds = seconds
        self._server = partial(
            _Session,
            hostname=host,
            port=parts.port,
            username=unquote(parts.username or "") or None,
            password=unquote(parts.password or "") or None,
            # By default the library asks the resolver for this host's name, which may take long.
            local_hostname=mail_domain(sender),
            use_tls=parts.scheme == "smtps",
            start_tls=parts.scheme == "smtp" and not is_loopback(host),
            tls_context=ssl.create_default_context(),
            timeout=seconds,
        )

    async def send(self, letter: Letter) -> None:
        """See `protocol.Outlet`."""
        message = compose(letter, self._sender)
        async with self._connected() as server:
            await server.send_message(
                message, sender=mailbox(self._sender), recipients=[mailbox(letter.to)]
            )

    async def check(self) -> None:
        """Connects, upgrades and signs in as for a letter. Raises `Undelivered`."""
        async with self._connected() as server:
            await server.noop()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[SMTP]:
        server = self._server()
        try:
            # The library's timeout is for each step, and a slow server could make many of one.
            async with asyncio.timeout(self._seconds) as server.limit:
                await server.connect()
                _notice_its_end(server)
                yield server
            # What was handed over stays so, however they part.
            with suppress(SMTPException):
                await server.quit(timeout=GOODBYE_SECONDS)
        except (SMTPException, OSError) as error:
            # Not with its cause: servers repeat addresses in their answers.
            raise _undelivered(error) from None
        finally:
            server.close()


def _notice_its_end(server: SMTP) -> None:
    """Has a server that has gone without a farewell found out while its answer is waited for."""
    connection: Any = server.transport and server.transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PATIENCE.items():
            if (option := getattr(socket, name, None)) is not None:
                connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _undelivered(error: Exception) -> Undelivered:
    """What may be told of a failure: of a server's answer no more than its codes."""
    if isinstance(error, SMTPRecipientsRefused):
        error = error.recipients[0]
    if isinstance(error, SMTPResponseException) and error.code < 0:  # which the library makes up
        return Undelivered("what answers there speaks no SMTP", lasting=False)
    if isinstance(error, SMTPResponseException):
        enhanced = re.match(r"[245]\.\d{1,3}\.\d{1,3}\b", error.message)  # RFC 3463
        codes = f"{error.code} {enhanced[0]}" if enhanced else str(error.code)
        lasting = error.code >= 500 and isinstance(error, _OF_THE_LETTER)
        return Undelivered(f"the mail server answered {codes}", lasting=lasting)
    if isinstance(error, SMTPNotSupported):
        return Undelivered("the mail server cannot reach such an address", lasting=True)
    if isinstance(error, TimeoutError):
        return Undelivered("the mail server did not answer in time", lasting=False)
    return Undelivered(str(error), lasting=False)
