"""The audit log, for admins."""

from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec

from portico.core.audit import Entry
from portico.core.errors import BrokenRule, NotFound, Unreadable
from portico.core.times import DAY, day
from portico.core.words import FORMATS, Format
from portico.features.events.audit import Audit, AuditFilter
from portico.features.events.pages.events import Named, pages_of
from portico.features.events.schemas import header, rows
from portico.features.people.users import accounts_named
from portico.web.messages import Reply
from portico.web.pages.forms import Form
from portico.web.pages.list_files import as_file, format_asked
from portico.web.pages.site import PageRoute, Visit

_PER_PAGE = 25
_FILTERS = ("user", "action", "target", "from", "to")
_IN_DETAILS = {"user_id": "user", "successor": "api_key"}
"""The members of an entry's details that are ids, and the kind of resource that each names."""


class _Asked(NamedTuple):
    """A query of the audit log: its filter, what the fields show and offer, and their faults."""

    chosen: AuditFilter
    shown: dict[str, str]
    actions: Collection[str]
    faults: Mapping[str, str]

    @property
    def narrowed(self) -> bool:
        """Whether a filter is given besides the first."""
        return any(text for name, text in self.shown.items() if name != "user")

    def query(self, **also: object) -> str:
        """The query string of the same entries."""
        return urlencode({name: text for name, text in {**self.shown, **also}.items() if text})


def _action(actions: Collection[str], text: str) -> str:
    """One of these actions. Raises `BrokenRule` for any other."""
    if text not in actions:
        raise BrokenRule("must be an action that the log records")
    return text


def _target(text: str) -> tuple[str, str]:
    """A kind and an id, as the page shows them. Raises `BrokenRule`."""
    *kind, target_id = text.split()
    if not kind:
        raise BrokenRule("must be a kind and an id, such as product 17")
    return "_".join(kind).lower(), target_id


def _end(since: int | None, text: str) -> int:
    """The end of the last day. Raises `BrokenRule`."""
    last = day(text)
    if since is not None and last < since:
        raise BrokenRule("must not be before the first day")
    return last + DAY


async def _asked(visit: Visit) -> _Asked:
    shown = {name: visit.sent(name).strip() for name in _FILTERS}
    form = Form({name: [text] for name, text in shown.items()})
    actions = await visit.env[Audit].actions()
    since = form.optional("from", day)
    chosen = AuditFilter(
        users=await accounts_named(visit.env, who) if (who := shown["user"]) else None,
        target=form.optional("target", _target),
        action=form.optional("action", partial(_action, actions)),
        since=since,
        until=form.optional("to", partial(_end, since)),
    )
    return _Asked(chosen, shown, actions, form.faults)


async def show(visit: Visit) -> Reply:
    """GET /audit: the newest entries, or those older than `before`; none if a filter is faulty."""
    asked = await _asked(visit)
    before, audit = visit.sent_number("before"), visit.env[Audit]
    entries = []
    if not asked.faults:
        entries = await audit.page(asked.chosen, before=before, limit=_PER_PAGE + 1)
    shown = entries[:_PER_PAGE]
    return visit.page(
        "audit.html",
        "Audit log",
        entries=shown,
        pages=await pages_of(visit, (named for entry in shown for named in _named(entry))),
        asked=asked,
        formats=FORMATS,
        before=before,
        newest=asked.query(),
        older=asked.query(before=shown[-1].id) if len(entries) > _PER_PAGE else "",
    )


async def show_one(visit: Visit) -> Reply:
    """GET /audit/{id}."""
    entry_id = visit.request.resource_id
    entries = await visit.env[Audit].page(before=entry_id + 1, limit=1)
    if not entries or entries[0].id != entry_id:
        raise NotFound(f"There is no entry {entry_id} in the audit log.")
    return visit.page(
        "audit_entry.html",
        entries[0].action,
        entry=entries[0],
        pages=await pages_of(visit, _named(entries[0])),
        in_details=_IN_DETAILS,
    )


def _named(entry: Entry) -> Iterator[Named]:
    if entry.user_id is not None:
        yield "user", str(entry.user_id)
    if entry.credential_id is not None:
        yield entry.credential, str(entry.credential_id)
    if entry.client_id is not None:
        yield "client", entry.client_id
    if entry.target is not None and entry.target_id is not None:
        yield entry.target, entry.target_id
    for name, value in msgspec.json.decode(entry.details).items():
        if name in _IN_DETAILS and value is not None:
            yield _IN_DETAILS[name], str(value)


async def export(visit: Visit) -> Reply:
    """GET /audit/export: all entries of the same query, the newest first."""
    asked = await _asked(visit)
    form = format_asked(visit)
    if asked.faults:
        raise Unreadable("The file cannot be created. Correct the filters, then export again.")
    return as_file(visit, "audit", form, _file(visit, asked.chosen, form))


async def _file(visit: Visit, chosen: AuditFilter, form: Format) -> AsyncGenerator[bytes, None]:
    if head := header(form):
        yield head
    async for batch in visit.env[Audit].batches(chosen):
        yield rows(form, batch)


PAGES = (
    PageRoute("GET", "/audit", show, "admin"),
    PageRoute("GET", "/audit/{id}", show_one, "admin"),
    PageRoute("GET", "/audit/export", export, "admin"),
)
