"""Without a mail server, mails are files that only their owner can read."""

import asyncio
import email
import os
from email.policy import default
from pathlib import Path

import msgspec
import pytest

from mail_server import LETTER
from portico.outbound.mail import FileOutlet, Undelivered


async def test_mail_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    outlet = FileOutlet(directory, "portico@localhost", "Portico")
    letters = [msgspec.structs.replace(LETTER, id=f"{number:x}") for number in range(20)]
    await asyncio.gather(*(outlet.send(letter) for letter in letters))
    files = sorted(directory.iterdir())
    assert {file.name for file in files} == {
        f"mail-20260315T120000Z-{number}.eml" for number in range(1, 21)
    }
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    messages = [email.message_from_bytes(file.read_bytes(), policy=default) for file in files]
    assert {message["Message-ID"] for message in messages} == {
        f"<{letter.id}@localhost>" for letter in letters
    }
    assert {message["To"] for message in messages} == {"ada@example.com"}


async def test_unwritable_mail_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with pytest.raises(Undelivered) as caught:
        await FileOutlet(tmp_path / "log", "portico@localhost", "Portico").send(LETTER)
    assert "cannot be written: File exists" in caught.value.reason
    assert not caught.value.lasting


async def test_mail_file_is_synced_before_it_counts_as_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "mail"
    stored: list[tuple[str, int]] = []
    store = os.fsync

    def seen(descriptor: int) -> None:
        place = Path(f"/proc/self/fd/{descriptor}").readlink()
        stored.append((place.name, len(list(directory.glob("mail-*.eml")))))
        store(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    await FileOutlet(directory, "portico@localhost", "Portico").send(LETTER)
    assert stored == [(f".{LETTER.id}", 0), ("mail", 1), (tmp_path.name, 1)]


def listed(directory: Path) -> list[Path]:
    """The files of a directory."""
    return sorted(directory.iterdir())


async def test_mail_file_is_neither_wrapped_nor_encoded(tmp_path: Path) -> None:
    letter = msgspec.structs.replace(LETTER, subject="Schlüssel", text=f"Öffnen:\n\n{LETTER.text}")
    await FileOutlet(tmp_path, "portico@localhost", "Portico").send(letter)
    link = next(line for line in LETTER.text.splitlines() if line.startswith("https://"))
    lines = "\n".join(file.read_text("utf-8") for file in listed(tmp_path)).split("\n")
    assert {"Subject: Schlüssel", "Öffnen:", link} < set(lines)
