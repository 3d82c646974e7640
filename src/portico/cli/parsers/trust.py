"""What can be typed behind `portico trust`."""

from portico.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Declares `portico trust`."""
    parser = commands.verb(
        "trust", "portico.cli.trust:run", "say how to trust the local authority, or do it"
    )
    parser.add_argument(
        "--install", action="store_true", help="do it on this machine, after asking"
    )
