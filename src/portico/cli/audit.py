"""`portico audit`: who did what."""

from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from difflib import get_close_matches
from functools import partial

from portico.cli.listing import Form, print_list
from portico.cli.output import CommandError, minute, plain
from portico.contract.audit import entry_out
from portico.domain.audit import Entry
from portico.domain.errors import NotFound
from portico.domain.events import actions
from portico.services.environment import Environment
from portico.services.named_accounts import accounts_named
from portico.settings import Settings
from portico.storage.audit import AuditFilter


def run(settings: Settings, chosen: Namespace) -> None:
    print_list(settings, chosen, _LIST, partial(_found, chosen))


async def _found(chosen: Namespace, env: Environment) -> AsyncIterator[list[Entry]]:
    users = None if chosen.user is None else await accounts_named(env, chosen.user)
    if users is not None and not users:
        raise NotFound(f"No user has or had the e-mail {chosen.user}.")
    if chosen.action is not None:
        await _check_action(env, chosen.action)
    wanted = AuditFilter(users=users, action=chosen.action)
    async for batch in env.audit.batches(wanted, before=chosen.before, limit=chosen.limit):
        yield batch


async def _check_action(env: Environment, action: str) -> None:
    """Raises `CommandError` for an action that is neither one of this version nor in the log."""
    known = actions()
    if action in known or action in (known := known.union(await env.audit.actions())):
        return
    noun = action.partition(".")[0]
    of_noun = sorted(name for name in known if name.startswith(f"{noun}."))
    near = get_close_matches(action, known, 3) or of_noun
    told = f"did you mean {' or '.join(near)}?" if near else "see docs/operations/audit-log.md"
    raise CommandError(f"there is no action {plain(action)}: {told}", 2)


def _cells(entry: Entry) -> Sequence[str]:
    return (
        str(entry.id),
        minute(entry.at),
        plain(entry.email or "-"),
        _named(entry.credential, entry.credential_id),
        entry.address or "-",
        entry.action,
        _named(entry.target or "-", entry.target_id),
        plain(entry.details) if entry.details != "{}" else "",
    )


def _named(kind: str, row_id: int | str | None) -> str:
    return kind if row_id is None else f"{kind} {plain(str(row_id))}"


_LIST = Form(
    entry_out,
    ("ID", "AT", "WHO", "WITH", "FROM", "ACTION", "TARGET", "DETAILS"),
    _cells,
    "There are no entries.",
)
