"""Declares `portico trust`."""

from portico.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Declares `portico trust`."""
    parser = commands.verb(
        "trust",
        "portico.cli.trust:run",
        "show how to trust the local certificate authority, or do it",
    )
    parser.add_argument(
        "--install", action="store_true", help="trust it on this machine, after asking"
    )
