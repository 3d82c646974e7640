"""A mail server in the test's own event loop, which stores what it receives."""

import asyncio
import email
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, NamedTuple

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from answering import close
from portico.features.operations.certificates import ensure
from portico.outbound.mail import Letter

TIMEOUT_SECONDS = 60.0

ELSEWHERE = "0.0.0.0"  # noqa: S104 - connected to
"""An address of this host that is not a loopback address."""

USER, PASSWORD = "portico", "p@ss/w:rd"
SIGNED_IN = "portico:p%40ss%2Fw%3Ard@"
"""User and password in the form of a URL."""

NOON = 1_773_576_000_000

LETTER = Letter(
    id="8c7d",
    at=NOON,
    user_id=7,
    to="ada@example.com",
    subject="Reset your Portico password",
    text="Open this:\n\nhttps://localhost:8443/dashboard/reset?token=" + "t" * 43 + "\n",
    html="<p>Open <a>this</a></p>\n",
)


class Received(NamedTuple):
    """A message that the server accepted."""

    sender: str
    recipients: list[str]
    message: EmailMessage
    over_tls: bool
    signed_in: bool


@dataclass
class MailServer:
    """Accepts every message, after giving the `answers` to the first recipients."""

    answers: list[str] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    port: int = 0
    recipients: int = 0
    """How many recipients it was given."""
    passwords: int = 0
    """How many passwords it was given."""

    def __post_init__(self) -> None:
        self._arrived: asyncio.Queue[Received] = asyncio.Queue()

    async def next(self) -> Received:
        """Waits for the next message and returns it."""
        return await asyncio.wait_for(self._arrived.get(), TIMEOUT_SECONDS)

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: Any
    ) -> str:
        """See aiosmtpd's handlers."""
        self.recipients += 1
        if self.answers:
            return self.answers.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - the library's name
        self, _server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """See aiosmtpd's handlers."""
        content = envelope.content
        if isinstance(content, str):  # if the server accepts only ASCII
            content = content.encode("ascii")
        assert isinstance(content, bytes)
        assert all(len(line) <= 998 for line in content.splitlines())
        message = email.message_from_bytes(content.replace(b"\r\n", b"\n"), policy=default)
        assert isinstance(message, EmailMessage)
        received = Received(
            str(envelope.mail_from),
            [str(one) for one in envelope.rcpt_tos],
            message,
            session.ssl is not None,
            bool(session.authenticated),
        )
        self.received.append(received)
        self._arrived.put_nowait(received)
        return "250 OK"

    def authenticate(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, told: Any
    ) -> AuthResult:
        """See aiosmtpd's authenticators."""
        self.passwords += 1
        assert isinstance(told, LoginPassword)
        right = told == LoginPassword(USER.encode(), PASSWORD.encode())
        return AuthResult(success=right, handled=False)


class Authority(NamedTuple):
    """A certificate authority, and the TLS context of a server with a certificate of it."""

    certificate: Path
    context: ssl.SSLContext


def authority(directory: Path) -> Authority:
    """A new authority, with a certificate for this host."""
    files = ensure(directory, [ELSEWHERE], NOON)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    return Authority(files.ca_certificate, context)


@asynccontextmanager
async def serving(
    server: MailServer,
    *,
    tls: ssl.SSLContext | None = None,
    starttls: ssl.SSLContext | None = None,
    password: bool = False,
    **options: Any,
) -> AsyncIterator[MailServer]:
    """Runs a server with TLS from the first byte, with STARTTLS, or without TLS. With `password` it
    requires clients to sign in."""

    def protocol() -> SMTP:
        with warnings.catch_warnings(action="ignore"):
            # The library does not see the TLS of the listener, and warns.
            return SMTP(
                server,
                hostname="mail.example.com",
                tls_context=starttls,
                require_starttls=starttls is not None,
                authenticator=server.authenticate if password else None,
                auth_required=password,
                auth_require_tls=starttls is not None,
                **options,
            )

    loop = asyncio.get_running_loop()
    listener = await loop.create_server(protocol, "0.0.0.0", 0, ssl=tls)  # noqa: S104 - as ELSEWHERE
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        await close(listener)
        await listener.wait_closed()
