"""`portico signing-keys`: the keys that sign JSON Web Tokens."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from portico.cli.output import answer, table
from portico.cli.prepared import in_environment
from portico.contract.envelope import optional_timestamp, timestamp
from portico.domain.audit import OPERATOR
from portico.settings import Settings
from portico.storage.signing_keys import SigningKey


def run_rotate(settings: Settings, chosen: Namespace) -> None:
    made = in_environment(
        settings, chosen, lambda env: env.signer.rotate(OPERATOR, at_once=chosen.at_once)
    )
    effect = (
        "signs from now on; what other keys signed is refused"
        if chosen.at_once
        else f"is published; it signs from {timestamp(made.signs_at)} on"
    )
    answer(
        {"kid": made.kid, "signs_at": timestamp(made.signs_at)},
        f"Signing key {made.kid} {effect}.",
        as_json=chosen.json,
    )


def run_list(settings: Settings, chosen: Namespace) -> None:
    found = in_environment(settings, chosen, lambda env: env.signing_keys.all())
    entries = [_entry(row, found) for row in found]
    headings = ("KID", "CREATED", "SIGNS FROM", "PUBLISHED UNTIL")
    rows = [
        (each["kid"], each["created_at"], each["signs_at"], _until(row))
        for each, row in zip(entries, found, strict=True)
    ]
    answer(entries, table([headings, *rows]), as_json=chosen.json)


def _until(row: SigningKey) -> str:
    if row.retires_at is None:
        return "further notice"
    return timestamp(row.retires_at) if row.retires_at else "ended at once"


def _entry(row: SigningKey, rows: Sequence[SigningKey]) -> dict[str, Any]:
    retires_at = row.retires_at
    if retires_at == 0:  # a later key that signed immediately has ended it
        later = (one.signs_at for one in rows if one.id > row.id and one.signs_at == one.created_at)
        retires_at = min(later, default=None)
    return {
        "kid": row.kid,
        "created_at": timestamp(row.created_at),
        "signs_at": timestamp(row.signs_at),
        "retires_at": optional_timestamp(retires_at),
    }
