"""`portico audit`: who did what."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from portico.cli.arguments import Commands, add_limit, add_sandbox, row_id, text
from portico.cli.lazy import lazy_imports
from portico.cli.listing import ListForm, print_list
from portico.cli.output import CommandError, minute, plain

if TYPE_CHECKING:
    from portico.core.audit import Entry
    from portico.environment import Environment
    from portico.settings import Settings

with lazy_imports():
    from portico.core import errors
    from portico.features.access import rules as access_rules
    from portico.features.catalogue import products
    from portico.features.catalogue import rules as catalogue_rules
    from portico.features.events import audit as storage_audit
    from portico.features.events import rules as events_rules
    from portico.features.events import schemas as contract_audit
    from portico.features.operations import events as operations_events
    from portico.features.people import rules as people_rules
    from portico.features.people import users
    from portico.features.signin import rules as signin_rules

DEFAULT_LIMIT = 50

_DETAILS = """\
Entries are never changed. An entry of the server names the account, credential and address; one of
the command line says so. --json prints every detail."""


def actions() -> frozenset[str]:
    """Every action that the audit log may have."""
    modules = (
        *(access_rules, catalogue_rules, events_rules),
        *(operations_events, people_rules, signin_rules, products.PRODUCTS),
    )
    kinds = (kind for module in modules for kind in vars(module).values())
    return frozenset(kind.action for kind in kinds if hasattr(kind, "action"))


def add_to(commands: Commands) -> None:
    """Declares `portico audit`."""
    audit = commands.verb("audit", run, "show the audit log, newest first", _DETAILS)
    add_limit(audit, "entries", DEFAULT_LIMIT)
    audit.add_argument(
        "--user",
        metavar="EMAIL|ID",
        type=text,
        help="only entries by or about this account; an e-mail: every account that ever had it",
    )
    audit.add_argument(
        "--action", metavar="NAME", type=text, help="only this action, such as api_key.created"
    )
    audit.add_argument(
        "--before", metavar="ID", type=row_id, help="only entries older than this one"
    )
    add_sandbox(audit)


def run(settings: Settings, chosen: Namespace) -> None:
    headings = ("ID", "AT", "WHO", "WITH", "FROM", "ACTION", "TARGET", "DETAILS")
    form = ListForm(contract_audit.entry_out, headings, _cells, "There are no entries.")
    print_list(settings, chosen, form, partial(_found, chosen))


async def _found(chosen: Namespace, env: Environment) -> AsyncIterator[list[Entry]]:
    named = None if chosen.user is None else await users.accounts_named(env, chosen.user)
    if named is not None and not named:
        raise errors.NotFound(f"No user has or had the e-mail {chosen.user}.")
    if chosen.action is not None:
        await _check_action(env, chosen.action)
    wanted = storage_audit.AuditFilter(users=named, action=chosen.action)
    async for batch in env[storage_audit.Audit].batches(
        wanted, before=chosen.before, limit=chosen.limit
    ):
        yield batch


async def _check_action(env: Environment, action: str) -> None:
    """Raises `CommandError` for an action that is neither one of this version nor in the log."""
    known = actions()
    if action in known or action in (
        known := known.union(await env[storage_audit.Audit].actions())
    ):
        return
    from difflib import get_close_matches  # after a mistake only

    noun = action.partition(".")[0]
    of_noun = sorted(name for name in known if name.startswith(f"{noun}."))
    near = get_close_matches(action, known, 3) or of_noun
    hint = f"did you mean {' or '.join(near)}?" if near else "see docs/operations/audit-log.md"
    raise CommandError(f"there is no action {plain(action)}: {hint}", 2)


def _cells(entry: Entry) -> Sequence[str]:
    return (
        str(entry.id),
        minute(entry.at),
        plain(entry.email or "-"),
        _named(entry.credential, entry.credential_id)
        + (f" ({plain(entry.client_name)})" if entry.client_name else ""),
        entry.address or "-",
        entry.action,
        _named(entry.target or "-", entry.target_id),
        plain(entry.details) if entry.details != "{}" else "",
    )


def _named(kind: str, row_id: int | str | None) -> str:
    return kind if row_id is None else f"{kind} {plain(str(row_id))}"
