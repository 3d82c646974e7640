"""A letter as an Internet message (RFC 5322)."""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP

from portico.domain.users import mail_domain, mailbox
from portico.mail.protocol import Letter

_LONGEST_LINE = 998
"""Octets of a line as it stands (RFC 5322 §2.1.1)."""


def compose(letter: Letter, sender: str) -> EmailMessage:
    """The message from the address `sender`. No value can begin another header: the library refuses
    line ends."""
    message = EmailMessage(policy=SMTP)
    message["From"] = _address(sender, "Portico")
    message["To"] = _address(letter.to)
    message["Subject"] = letter.subject
    message["Date"] = datetime.fromtimestamp(letter.at / 1000, UTC)
    message["Message-ID"] = f"<{letter.id}@{mail_domain(sender)}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday note comes back
    message.set_content(letter.text, cte=_encoding(letter.text))
    message.add_alternative(letter.html, subtype="html", cte=_encoding(letter.html))
    return message


def _encoding(text: str) -> str:
    """How a part's text goes (RFC 2045 §6): as it stands where its lines allow that, not by the
    library's choice for long ones, so that links stay whole, for people and programs. To a server
    without 8BITMIME (RFC 6152), the SMTP client sends 8bit as base64."""
    if max(len(line.encode()) for line in text.splitlines()) > _LONGEST_LINE:
        return "quoted-printable"
    return "7bit" if text.isascii() else "8bit"


def _address(address: str, name: str = "") -> Address:
    # Not by the library's parser, which takes no letters beyond ASCII (RFC 6532).
    local, _, host = mailbox(address).rpartition("@")
    return Address(name, local, host)
