"""What can be typed behind `portico events`."""

from argparse import ArgumentParser

from portico.cli.arguments import Commands, read_by, ruled, take_sandbox

DEFAULT_LIMIT = 25


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
        type=read_by("portico.cli.values:number"),
        default=DEFAULT_LIMIT,
        help="how many events (default %(default)s)",
    )
    _take_types(listing)


def _take_types(command: ArgumentParser) -> None:
    command.add_argument(
        "--type",
        metavar="T",
        type=ruled("portico.domain.published:event_types"),
        help="only these types, comma-separated, such as product.updated or 'user.*'",
    )
    take_sandbox(command)
