"""`portico events list`, and the one-line description of an event."""

from argparse import Namespace

import msgspec

from portico.cli.output import answer, mention, minute, plain, table
from portico.cli.prepared import in_environment
from portico.contract.events import event_body
from portico.domain.published import StoredEvent
from portico.services.environment import Environment
from portico.services.events import read_events
from portico.settings import Settings
from portico.storage.events import EventPage

LONGEST = 60
"""How many characters of a name or of a receiver's answer a line shows."""


def run_list(settings: Settings, chosen: Namespace) -> None:
    page = in_environment(settings, chosen, lambda env: _read(env, chosen))
    answer([event_body(event) for event in page.rows], _table(page.rows), as_json=chosen.json)
    if page.has_more and not chosen.json:
        mention(f"There are more: --after {page.rows[-1].id}")


async def _read(env: Environment, chosen: Namespace) -> EventPage:
    page = await read_events(env, chosen.after, chosen.type, chosen.limit)
    rows = page.rows
    while page.has_more and len(rows) < chosen.limit:  # large events come in smaller pages
        page = await read_events(env, rows[-1].id, chosen.type, chosen.limit - len(rows))
        rows += page.rows
    return EventPage(rows, page.has_more)


def _table(rows: list[StoredEvent]) -> str:
    if not rows:
        return "There are no events."
    cells = [(str(row.id), minute(row.at), row.type, in_short(row)) for row in rows]
    return table([("ID", "AT", "TYPE", "OF"), *cells])


def in_short(event: StoredEvent) -> str:
    """What an event is about: the id and name of the resource and the fields that changed, or the
    counts of bulk work."""
    data = msgspec.json.decode(event.data)
    if "id" in data:
        name = plain(data.get("email") or data["name"])
        subject = f"{data['id']} {name[:LONGEST]}"
    else:
        subject = ", ".join(f"{name} {value}" for name, value in data.items())
    changed = msgspec.json.decode(event.previous or "{}")
    return f"{subject} ({', '.join(changed)})" if changed else subject
