"""A letter as an Internet message (RFC 5322)."""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP

from portico.domain.users import mail_domain, mailbox
from portico.mail.protocol import Letter

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
