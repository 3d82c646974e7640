"""What can be typed behind `portico events`."""

from argparse import ArgumentParser

from portico.cli.arguments import Commands, read_by, ruled, take_sandbox

DEFAULT_LIMIT = 25

_LISTEN = """\
For work on what receives events: reads them from the database beside a server, which may stop and
start meanwhile, and prints a line each until Ctrl-C; with --json an object each.

With --forward-to each event is also sent to a URL, anywhere, over http too, as a webhook's
deliveries are, one after the other. They are signed with a new secret, which is printed at the
start, or with that of the variable WEBHOOK_SECRET. Whatever is answered is shown and not sent
again; where no answer comes, it is tried again for about a quarter of a minute."""


def add_to(commands: Commands) -> None:
    """Declares `portico events …`."""
    events = commands.noun("events", "list and follow what has happened")
    listing = events.verb("list", "portico.cli.events:run_list", "list events, oldest first")
    listing.add_argument(
        "--after",
        metavar="ID",
        type=read_by("portico.cli.values:event_id"),
        default=0,
        help="only events after this one (default: from the oldest that is kept)",
    )
    listing.add_argument(
        "--limit",
        metavar="N",
        type=read_by("portico.cli.values:limit"),
        default=DEFAULT_LIMIT,
        help="how many events (default %(default)s)",
    )
    _take_types(listing)
    listening = events.verb(
        "listen", "portico.cli.listen:run", "follow events, and forward them", _LISTEN
    )
    listening.add_argument(
        "--forward-to",
        metavar="URL",
        type=read_by("portico.cli.values:forward_url"),
        help="where each event is sent, such as http://localhost:3000/hook",
    )
    listening.add_argument(
        "--after",
        metavar="ID",
        type=read_by("portico.cli.values:event_id"),
        help="begin after this event; 0: with the oldest that is kept (default: from now on)",
    )
    _take_types(listening)


def _take_types(command: ArgumentParser) -> None:
    command.add_argument(
        "--type",
        metavar="T",
        type=ruled("portico.domain.published:event_types"),
        help="only these types, comma-separated, such as product.updated or 'user.*'",
    )
    take_sandbox(command)
