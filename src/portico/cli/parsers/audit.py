"""What can be typed behind `portico audit`."""

from portico.cli.arguments import Commands, read_by, take_sandbox, text

DEFAULT_LIMIT = 50

_DETAILS = """\
Entries are written with what they tell of and never changed. What a server does for somebody names
account, credential and address; what is done on the command line says so. --json has all of it."""


def add_to(commands: Commands) -> None:
    """Declares `portico audit`."""
    audit = commands.verb(
        "audit", "portico.cli.audit:run", "show the audit log, newest first", _DETAILS
    )
    audit.add_argument(
        "--limit",
        metavar="N",
        type=read_by("portico.cli.values:limit"),
        default=DEFAULT_LIMIT,
        help="how many entries (default %(default)s)",
    )
    audit.add_argument(
        "--user",
        metavar="EMAIL|ID",
        type=text,
        help="only what this account did, or what was done to it; an e-mail: all that ever had it",
    )
    audit.add_argument("--action", metavar="NAME", type=text, help="only this, such as key.created")
    audit.add_argument(
        "--before",
        metavar="ID",
        type=read_by("portico.cli.values:row_id"),
        help="only entries older than this one",
    )
    take_sandbox(audit)
