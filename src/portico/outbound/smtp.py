"""Sends mail to an SMTP server (RFC 6409), over TLS unless the server is on this host."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
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

from portico.core.networks import is_loopback
from portico.core.users import mail_domain, mailbox
from portico.outbound.mail import Letter, Undelivered, compose

SECONDS = 20.0
"""How long everything up to the transfer of the letter may take, beginning with the connection."""

ACCEPTING_SECONDS = 600.0
"""How long the server may take to confirm a letter, which it may be scanning for viruses (RFC 5321
§4.5.3.2.6). A client that gives up earlier sends the letter again, and it arrives twice."""

QUIT_SECONDS = 1.0

_LETTER_ERRORS = (SMTPRecipientRefused, SMTPDataError)
"""Errors about the letter itself. All others, such as a wrong password, are about the connection
or its configuration."""


class _Session(SMTP):
    """A connection with a time limit for everything that is done with it."""

    limit: asyncio.Timeout

    async def data(self, message: str | bytes, /, **_: object) -> SMTPResponse:
        """See `SMTP`."""
        self.limit.reschedule(asyncio.get_running_loop().time() + ACCEPTING_SECONDS)
        return await super().data(message, timeout=ACCEPTING_SECONDS)


class SmtpOutlet:
    """Sends letters to a mail server, each over its own connection.

    Certificates are verified against the system's authorities.
    """

    def __init__(self, url: str, sender: str, name: str, *, seconds: float = SECONDS) -> None:
        """`url` is as read by `settings.values.mail_server`; `sender` is the address that mails
        come from, `name` what it is shown as."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        self._sender = sender
        self._name = name
        self._seconds = seconds
        self._server = partial(
            _Session,
            hostname=host,
            port=parts.port,
            username=unquote(parts.username or "") or None,
            password=unquote(parts.password or "") or None,
            # By default the library looks up this host's name, which may take long.
            local_hostname=mail_domain(sender),
            use_tls=parts.scheme == "smtps",
            start_tls=parts.scheme == "smtp" and not is_loopback(host),
            tls_context=ssl.create_default_context(),
            timeout=seconds,
        )

    async def send(self, letter: Letter) -> None:
        """See `protocol.Outlet`."""
        message = compose(letter, self._sender, self._name)
        async with self._connected() as server:
            await server.send_message(
                message, sender=mailbox(self._sender), recipients=[mailbox(letter.to)]
            )

    async def check(self) -> None:
        """Connects, starts TLS and authenticates as for a letter. Raises `Undelivered`."""
        async with self._connected() as server:
            await server.noop()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[SMTP]:
        server = self._server()
        try:
            # The library's timeout applies to each read, of which a slow server can cause many.
            async with asyncio.timeout(self._seconds) as server.limit:
                await server.connect()
                yield server
            # The letter has been accepted, whether or not QUIT succeeds.
            with suppress(SMTPException):
                await server.quit(timeout=QUIT_SECONDS)
        except (SMTPException, OSError) as error:
            # Without the cause: servers repeat addresses in their answers.
            raise _undelivered(error) from None
        finally:
            server.close()


def _undelivered(error: Exception) -> Undelivered:
    """The error to report for a failure. Of a server's answer it contains only the codes."""
    if isinstance(error, SMTPRecipientsRefused):
        error = error.recipients[0]
    if isinstance(error, SMTPResponseException) and error.code < 0:  # set by the library
        return Undelivered("the server does not speak SMTP", lasting=False)
    if isinstance(error, SMTPResponseException):
        enhanced = re.match(r"[245]\.\d{1,3}\.\d{1,3}\b", error.message)  # RFC 3463
        codes = f"{error.code} {enhanced[0]}" if enhanced else str(error.code)
        lasting = error.code >= 500 and isinstance(error, _LETTER_ERRORS)
        return Undelivered(f"the mail server answered {codes}", lasting=lasting)
    if isinstance(error, SMTPNotSupported):
        return Undelivered("the mail server does not support the address", lasting=True)
    if isinstance(error, TimeoutError):
        return Undelivered("the mail server did not answer in time", lasting=False)
    return Undelivered(str(error), lasting=False)
