"""Declares `portico events`."""

from argparse import ArgumentParser

from portico.cli.arguments import Commands, add_limit, add_sandbox, by_function, by_rule

DEFAULT_LIMIT = 25

_LISTEN = """\
For developing receivers of events. Reads events from the database, whether or not a server runs,
and prints one line for each until Ctrl-C; with --json, one JSON object.

With --forward-to, each event is also sent to a URL, in order, like the deliveries of a webhook.
Any address is allowed, http too. Deliveries are signed with a new secret, which is printed at the
start, or with the one in WEBHOOK_SECRET. Responses are shown. An event is sent again only if there
is no response, for about 15 seconds."""


def add_to(commands: Commands) -> None:
    """Declares `portico events …`."""
    events = commands.noun("events", "list and follow events")
    listing = events.verb("list", "portico.cli.events:run_list", "list events, oldest first")
    listing.add_argument(
        "--after",
        metavar="ID",
        type=by_function("portico.cli.values:event_id"),
        default=0,
        help="only events after this one (default: from the oldest that is stored)",
    )
    add_limit(listing, "events", DEFAULT_LIMIT)
    _add_types(listing)
    listening = events.verb(
        "listen", "portico.cli.listen:run", "follow events, and forward them to a URL", _LISTEN
    )
    listening.add_argument(
        "--forward-to",
        metavar="URL",
        type=by_function("portico.cli.values:forward_url"),
        help="URL to send each event to, such as http://localhost:3000/hook",
    )
    listening.add_argument(
        "--after",
        metavar="ID",
        type=by_function("portico.cli.values:event_id"),
        help="begin after this event; 0: with the oldest stored (default: new events only)",
    )
    _add_types(listening)


def _add_types(command: ArgumentParser) -> None:
    command.add_argument(
        "--type",
        metavar="T",
        type=by_rule("portico.domain.published:event_types"),
        action="extend",
        help="only these types, comma-separated, such as product.updated or 'user.*'; 'product.*'"
        " does not include products.imported; can be repeated",
    )
    add_sandbox(command)
