"""The interface of outgoing mail. The outlets are `smtp` and `files`."""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Protocol

import msgspec

from portico.core.users import mail_domain, mailbox


class Letter(msgspec.Struct, frozen=True):
    """A mail to one user, as plain text and as HTML.

    `id` is unique, and `at` is when it was written (epoch milliseconds).
    """

    id: str
    at: int
    user_id: int
    to: str
    subject: str
    text: str
    html: str


class Undelivered(Exception):
    """A letter was not accepted.

    `reason` contains nothing of the letter and no person's address. `lasting` is whether the next
    attempt would fail in the same way.
    """

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lasting = lasting


class Outlet(Protocol):
    """Sends letters."""

    async def send(self, letter: Letter) -> None:
        """Sends a letter. Returns once the receiver has taken responsibility for it. Raises
        `Undelivered`, within minutes."""
        ...


_LONGEST_LINE = 998
"""The longest line without an encoding, in octets (RFC 5322 §2.1.1)."""


def compose(letter: Letter, sender: str, name: str) -> EmailMessage:
    """The message of a letter from the address `sender`, shown as `name`. No value can inject a
    header: the library refuses newlines."""
    message = EmailMessage(policy=SMTP)
    message["From"] = _address(sender, name)
    message["To"] = _address(letter.to)
    message["Subject"] = letter.subject
    message["Date"] = datetime.fromtimestamp(letter.at / 1000, UTC)
    message["Message-ID"] = f"<{letter.id}@{mail_domain(sender)}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: prevents automatic replies
    message.set_content(letter.text, cte=_encoding(letter.text))
    message.add_alternative(letter.html, subtype="html", cte=_encoding(letter.html))
    return message


def _encoding(text: str) -> str:
    """The transfer encoding of a text (RFC 2045 §6): none if its lines are short enough, so that
    links are not broken, as they would be by the library's choice. The SMTP client converts 8bit to
    base64 for a server without 8BITMIME (RFC 6152)."""
    if max(len(line.encode()) for line in text.splitlines()) > _LONGEST_LINE:
        return "quoted-printable"
    return "7bit" if text.isascii() else "8bit"


def _address(address: str, name: str = "") -> Address:
    # The library's own parser refuses non-ASCII letters, which RFC 6532 allows.
    local, _, host = mailbox(address).rpartition("@")
    return Address(name, local, host)
