"""`portico signing-keys`: the keys that sign JSON Web Tokens."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from portico.cli.arguments import Commands, add_sandbox
from portico.cli.lazy import lazy_imports
from portico.cli.output import answer, table

if TYPE_CHECKING:
    from portico.features.access.storage import SigningKey
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import prepared
    from portico.core import audit
    from portico.features.access import signing
    from portico.features.access import storage as access_storage
    from portico.web import envelope


def add_to(commands: Commands) -> None:
    """Declares `portico signing-keys …`."""
    keys = commands.noun("signing-keys", "list and rotate the keys that sign JSON Web Tokens")
    rotate = keys.verb(
        "rotate",
        run_rotate,
        "create the next signing key",
        "It is published immediately and used after 15 minutes, when everyone has fetched it. The"
        "\nprevious key stays published as long as tokens that it signed are valid.",
    )
    rotate.add_argument(
        "--at-once",
        action="store_true",
        help="use it now, and refuse what older keys signed: for a leaked key",
    )
    add_sandbox(rotate)
    listing = keys.verb("list", run_list, "list signing keys, oldest first")
    add_sandbox(listing)


def run_rotate(settings: Settings, chosen: Namespace) -> None:
    made = prepared.in_environment(
        settings,
        chosen,
        lambda env: env[signing.Signer].rotate(audit.OPERATOR, at_once=chosen.at_once),
    )
    effect = (
        "signs from now on; what other keys signed is refused"
        if chosen.at_once
        else f"is published; it signs from {envelope.timestamp(made.signs_at)} on"
    )
    answer(
        {"kid": made.kid, "signs_at": envelope.timestamp(made.signs_at)},
        f"Signing key {made.kid} {effect}.",
        as_json=chosen.json,
    )


def run_list(settings: Settings, chosen: Namespace) -> None:
    found = prepared.in_environment(
        settings, chosen, lambda env: env[access_storage.SigningKeys].all()
    )
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
    return envelope.timestamp(row.retires_at) if row.retires_at else "ended at once"


def _entry(row: SigningKey, rows: Sequence[SigningKey]) -> dict[str, Any]:
    retires_at = row.retires_at
    if retires_at == 0:  # a later key that signed immediately has ended it
        later = (one.signs_at for one in rows if one.id > row.id and one.signs_at == one.created_at)
        retires_at = min(later, default=None)
    return {
        "kid": row.kid,
        "created_at": envelope.timestamp(row.created_at),
        "signs_at": envelope.timestamp(row.signs_at),
        "retires_at": envelope.optional_timestamp(retires_at),
    }
