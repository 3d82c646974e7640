"""Outgoing mail: the interface of outlets, and the one that writes each letter into a file, which
the operator can read. The other one is `smtp`."""

import asyncio
import logging
import os
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from itertools import count
from pathlib import Path
from typing import Protocol

import msgspec

from portico.core.users import mail_domain, mailbox
from portico.data.disk import sync_directory, write_durably


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


_POLICY = SMTPUTF8.clone(linesep="\n")

log = logging.getLogger(__name__)


class FileOutlet:
    """Writes letters into a directory that only its owner can read, because they contain links that
    grant access to accounts."""

    def __init__(self, directory: Path, sender: str, name: str) -> None:
        """`sender` is the address that mails come from, `name` what it is shown as."""
        self._directory = directory
        self._sender = sender
        self._name = name

    async def send(self, letter: Letter) -> None:
        try:
            file = await asyncio.to_thread(self._write, letter)
        except OSError as error:
            reason = f"{self._directory} cannot be written: {error.strerror}"
            raise Undelivered(reason, lasting=False) from None
        log.info("a mail was written to %s, as smtp_url is not set", file)

    def _write(self, letter: Letter) -> Path:
        """Writes the letter atomically, under the first name that is free. The file is durable when
        this returns, because the database then deletes the mail."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        draft = self._directory / f".{letter.id}"
        content = compose(letter, self._sender, self._name).as_bytes(policy=_POLICY)
        try:
            write_durably(draft, content, 0o600)
            file = self._named(draft, datetime.fromtimestamp(letter.at // 1000, UTC))
            sync_directory(self._directory)
            sync_directory(self._directory.parent)  # where this may have created the directory
            return file
        finally:
            draft.unlink(missing_ok=True)

    def _named(self, draft: Path, at: datetime) -> Path:
        """Gives the file its final name. `os.link` fails if another process has taken the name."""
        for number in count(1):
            file = self._directory / f"mail-{at:%Y%m%dT%H%M%SZ}-{number}.eml"
            try:
                os.link(draft, file)
            except FileExistsError:
                continue
            break
        return file
