"""`portico events list`, and the one-line description of an event."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from portico.cli.arguments import (
    Commands,
    add_api,
    add_limit,
    add_sandbox,
    event_id,
    forward_url,
    text,
)
from portico.cli.lazy import lazy_imports
from portico.cli.listing import ListForm, print_batches, print_list
from portico.cli.output import CommandError, mention, minute, plain

if TYPE_CHECKING:
    from portico.cli.remote import Api
    from portico.core.events import StoredEvent
    from portico.environment import Environment
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import remote
    from portico.core import errors, events
    from portico.features.events import feed as services_events
    from portico.features.events import payloads as contract_events
    from portico.features.events import storage as storage_events
    from portico.features.events.commands import listen

DEFAULT_LIMIT = 25

_LISTEN = """\
For developing receivers of events. Reads events from the database, whether or not a server runs,
and prints one line for each until Ctrl-C; with --json, one JSON object. Where there is no data
directory, it follows the API that PORTICO_BASE_URL names, with the key in PORTICO_API_KEY.

With --forward-to, each event is also sent to a URL, in order, like the deliveries of a webhook.
Any address is allowed, http too. Deliveries are signed with a new secret, which is printed at the
start, or with the one in WEBHOOK_SECRET. Responses are shown. An event is sent again only if there
is no response, for about 15 seconds."""

LONGEST = 60
"""How many characters of a name or of a receiver's answer a line shows."""


def add_to(commands: Commands) -> None:
    """Declares `portico events …`."""
    events = commands.noun("events", "list and follow events")
    listing = events.verb("list", run_list, "list events, oldest first")
    listing.add_argument(
        "--after",
        metavar="ID",
        type=event_id,
        default=0,
        help="only events after this one (default: from the oldest that is stored)",
    )
    add_limit(listing, "events", DEFAULT_LIMIT)
    _add_types(listing)
    listening = events.verb(
        "listen",
        lambda *given: listen.run(*given),
        "follow events, and forward them to a URL",
        _LISTEN,
    )
    listening.add_argument(
        "--forward-to",
        metavar="URL",
        type=forward_url,
        help="URL to send each event to, such as http://localhost:3000/hook",
    )
    listening.add_argument(
        "--after",
        metavar="ID",
        type=event_id,
        help="begin after this event; 0: with the oldest stored (default: new events only)",
    )
    _add_types(listening)


def _add_types(command: ArgumentParser) -> None:
    command.add_argument(
        "--type",
        metavar="T",
        type=text,
        action="append",
        help="only these types, comma-separated, such as product.updated or 'user.*'; 'product.*'"
        " does not include products.imported; can be repeated",
    )
    add_sandbox(command)
    add_api(command)


def chosen_types(chosen: Namespace) -> tuple[str, ...] | None:
    """The types of `--type`, None for all. They are known once the kinds of the installation are.
    Raises `CommandError`."""
    if chosen.type is None:
        return None
    try:
        return events.event_types(",".join(chosen.type))
    except errors.BrokenRule as error:
        raise CommandError(f"argument --type: {error}", 2) from None


def run_list(settings: Settings, chosen: Namespace) -> None:
    """Lists events, of the database or of the API."""
    form = ListForm(
        contract_events.event_body, ("ID", "AT", "TYPE", "OF"), _cells, "There are no events."
    )
    last, more = 0, False

    async def found(env: Environment) -> AsyncIterator[list[StoredEvent]]:
        nonlocal last, more
        types = chosen_types(chosen)
        left, after, more = chosen.limit, chosen.after, True
        while left and more:  # large events come in smaller pages
            page = await services_events.read_events(env[storage_events.Events], after, types, left)
            yield page.rows
            more = page.has_more
            if page.rows:
                left, last = left - len(page.rows), page.rows[-1].id
                after = last

    def read(api: Api, add: Callable[[Sequence[StoredEvent]], None]) -> None:
        nonlocal last, more
        for rows, has_more in api.event_pages(chosen.after, chosen.type, chosen.limit):
            add(rows)
            last, more = rows[-1].id if rows else last, has_more

    if api := remote.chosen_api(settings, chosen):
        print_batches(chosen, form, partial(read, api))
    else:
        print_list(settings, chosen, form, found)
    if more and not chosen.json:
        mention(f"There are more: --after {last}")


def _cells(row: StoredEvent) -> Sequence[str]:
    return str(row.id), minute(row.at), row.type, in_short(row)


def in_short(event: StoredEvent) -> str:
    """What an event is about: the id of the resource, its name if it has one and the fields that
    changed, or the counts of bulk work."""
    data = json.loads(event.data)
    if "id" in data:
        name = plain(str(data.get("email") or data.get("name") or ""))
        subject = f"{data['id']} {name[:LONGEST]}".rstrip()
    else:
        subject = ", ".join(f"{name} {value}" for name, value in data.items())
    changed = json.loads(event.previous or "{}")
    return f"{subject} ({', '.join(changed)})" if changed else subject
