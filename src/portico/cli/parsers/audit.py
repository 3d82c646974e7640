"""Declares `portico audit`."""

from portico.cli.arguments import Commands, add_limit, add_sandbox, by_function, text

DEFAULT_LIMIT = 50

_DETAILS = """\
Entries are never changed. An entry of the server names the account, credential and address; one of
the command line says so. --json prints every detail."""


def add_to(commands: Commands) -> None:
    """Declares `portico audit`."""
    audit = commands.verb(
        "audit", "portico.cli.audit:run", "show the audit log, newest first", _DETAILS
    )
    add_limit(audit, "entries", DEFAULT_LIMIT)
    audit.add_argument(
        "--user",
        metavar="EMAIL|ID",
        type=text,
        help="only entries by or about this account; an e-mail: every account that ever had it",
    )
    audit.add_argument(
        "--action", metavar="NAME", type=text, help="only this action, such as key.created"
    )
    audit.add_argument(
        "--before",
        metavar="ID",
        type=by_function("portico.cli.values:row_id"),
        help="only entries older than this one",
    )
    add_sandbox(audit)
