"""`portico events list`, and the one-line description of an event."""

from argparse import Namespace
from collections.abc import AsyncIterator, Sequence

import msgspec

from portico.cli.listing import Form, print_list
from portico.cli.output import mention, minute, plain
from portico.contract.events import event_body
from portico.domain.published import StoredEvent
from portico.services.environment import Environment
from portico.services.events import read_events
from portico.settings import Settings
from portico.storage.events import EventPage

LONGEST = 60
"""How many characters of a name or of a receiver's answer a line shows."""


def run_list(settings: Settings, chosen: Namespace) -> None:
    page = EventPage([], has_more=True)

    async def found(env: Environment) -> AsyncIterator[list[StoredEvent]]:
        nonlocal page
        left, after = chosen.limit, chosen.after
        while left and page.has_more:  # large events come in smaller pages
            page = await read_events(env, after, chosen.type, left)
            yield page.rows
            if page.rows:
                left, after = left - len(page.rows), page.rows[-1].id

    print_list(settings, chosen, _LIST, found)
    if page.has_more and not chosen.json:
        mention(f"There are more: --after {page.rows[-1].id}")


def _cells(row: StoredEvent) -> Sequence[str]:
    return str(row.id), minute(row.at), row.type, in_short(row)


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


_LIST = Form(event_body, ("ID", "AT", "TYPE", "OF"), _cells, "There are no events.")
