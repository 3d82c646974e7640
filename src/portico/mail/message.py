"""A letter as an Internet message (RFC 5322)."""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP

from portico.domain.users import mailbox
from portico.mail.protocol import Letter


def compose(letter: Letter, sender: str) -> EmailMessage:
    """The message from the address `sender`. No value can begin another header: the library refuses
    line ends."""
    message = EmailMessage(policy=SMTP)
    message["From"] = _address(sender, "Portico")
    message["To"] = _address(letter.to)
    message["Subject"] = letter.subject
    message["Date"] = datetime.fromtimestamp(letter.at / 1000, UTC)
    message["Message-ID"] = f"<{letter.id}@{domain(sender)}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday note comes back
    # 7bit, not the library's choice for long lines: a link stays whole, for people and programs.
    message.set_content(letter.text, cte="7bit")
    message.add_alternative(letter.html, subtype="html", cte="7bit")
    return message


def _address(address: str, name: str = "") -> Address:
    # Not by the library's parser, which takes no letters beyond ASCII (RFC 6532).
    local, _, host = mailbox(address).rpartition("@")
    return Address(name, local, host)


def domain(address: str) -> str:
    """The domain of an address, in ASCII."""
    return mailbox(address).rpartition("@")[2]
