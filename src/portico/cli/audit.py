"""`portico audit`: who did what."""

from argparse import Namespace

from portico.cli.output import answer, minute, plain, table
from portico.cli.prepared import in_environment
from portico.contract.audit import entry_out
from portico.domain.audit import Entry
from portico.domain.errors import NotFound
from portico.services.environment import Environment
from portico.services.named_accounts import accounts_named
from portico.settings import Settings
from portico.storage.audit import AuditFilter


def run(settings: Settings, chosen: Namespace) -> None:
    entries = in_environment(settings, chosen, lambda env: _read(env, chosen))
    answer([entry_out(entry) for entry in entries], _table(entries), as_json=chosen.json)


async def _read(env: Environment, chosen: Namespace) -> list[Entry]:
    users = None if chosen.user is None else await accounts_named(env, chosen.user)
    if users is not None and not users:
        raise NotFound(f"No user has or had the e-mail {chosen.user}.")
    wanted = AuditFilter(users=users, action=chosen.action)
    return await env.audit.page(wanted, before=chosen.before, limit=chosen.limit)


def _table(entries: list[Entry]) -> str:
    if not entries:
        return "There are no entries."
    headings = ("ID", "AT", "WHO", "WITH", "FROM", "ACTION", "TARGET", "DETAILS")
    rows = [
        (
            str(entry.id),
            minute(entry.at),
            plain(entry.email or "-"),
            _named(entry.credential, entry.credential_id),
            entry.address or "-",
            entry.action,
            _named(entry.target or "-", entry.target_id),
            plain(entry.details) if entry.details != "{}" else "",
        )
        for entry in entries
    ]
    return table([headings, *rows])


def _named(kind: str, row_id: int | str | None) -> str:
    return kind if row_id is None else f"{kind} {plain(str(row_id))}"
