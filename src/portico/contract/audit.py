"""Entries of the audit log, as JSON and in files."""

from collections.abc import Iterable

import msgspec
from msgspec import Raw
from msgspec.structs import asdict

from portico.contract.csv_cells import csv_text
from portico.contract.envelope import timestamp
from portico.domain.audit import Entry
from portico.domain.words import Format


class AuditUser(msgspec.Struct):
    """The account of an entry's actor."""

    id: int | None
    email: str | None


class AuditEntry(msgspec.Struct):
    """One entry; `user` is None if no account is known."""

    id: int
    at: str
    action: str
    user: AuditUser | None
    credential: str
    credential_id: int | None
    address: str | None
    target: str | None
    target_id: str | None
    details: Raw
    request_id: str | None


def entry_out(entry: Entry) -> AuditEntry:
    """An entry as it is shown."""
    known = entry.user_id is not None or entry.email is not None
    return AuditEntry(
        entry.id,
        timestamp(entry.at),
        entry.action,
        AuditUser(entry.user_id, entry.email) if known else None,
        entry.credential,
        entry.credential_id,
        entry.address,
        entry.target,
        entry.target_id,
        Raw(entry.details.encode()),
        entry.request_id,
    )


def header(form: Format) -> bytes:
    """The beginning of a file, before the first entry."""
    return csv_text([Entry.__struct_fields__]) if form == "csv" else b""


def rows(form: Format, entries: Iterable[Entry]) -> bytes:
    """Entries as rows of a file."""
    if form == "csv":
        return csv_text(_cells(entry) for entry in entries)
    return msgspec.json.Encoder().encode_lines(entry_out(entry) for entry in entries)


def _cells(entry: Entry) -> Iterable[object]:
    return {**asdict(entry), "at": timestamp(entry.at)}.values()
