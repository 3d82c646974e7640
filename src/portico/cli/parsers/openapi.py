"""Declares `portico openapi`."""

from portico.cli.arguments import Commands, add_sandbox


def add_to(commands: Commands) -> None:
    """Declares `portico openapi`."""
    parser = commands.verb("openapi", "portico.cli.openapi:run", "print the API's OpenAPI document")
    add_sandbox(parser)
    parser.add_argument(
        "--auth", action="store_true", help="print the authorization server's document instead"
    )
