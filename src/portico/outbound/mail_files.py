"""Mail without a mail server: writes each letter into a file, which the operator can read."""

import asyncio
import logging
import os
from datetime import UTC, datetime
from email.policy import SMTPUTF8
from itertools import count
from pathlib import Path

from portico.data.disk import sync_directory, write_durably
from portico.outbound.mail import Letter, Undelivered, compose

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
        """See `protocol.Outlet`."""
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
