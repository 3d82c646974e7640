"""A letter as an Internet message (RFC 5322)."""

from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP

from portico.domain.users import mailbox
from portico.mail.protocol import Letter


def compose(letter: Letter, sender: str) -> EmailMessage:
    """The message from the address `sender`. No value can begin another header: the library refuses
    line ends, and an address is one by its parser."""
    message = EmailMessage(policy=SMTP)
    message["From"] = Address("Portico", addr_spec=mailbox(sender))
    message["To"] = Address(addr_spec=mailbox(letter.to))
    message["Subject"] = letter.subject
    message["Date"] = datetime.fromtimestamp(letter.at / 1000, UTC)
    message["Message-ID"] = f"<{letter.id}@{domain(sender)}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday note comes back
    # 7bit, not the library's choice for long lines: a link stays whole, for people and programs.
    message.set_content(letter.text, cte="7bit")
    message.add_alternative(letter.html, subtype="html", cte="7bit")
    return message


def domain(address: str) -> str:
    """The domain of an address, in ASCII."""
    return mailbox(address).rpartition("@")[2]
