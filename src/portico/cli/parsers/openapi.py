"""What can be typed behind `portico openapi`."""

from portico.cli.arguments import Commands, take_sandbox


def add_to(commands: Commands) -> None:
    """Declares `portico openapi`."""
    take_sandbox(
        commands.verb("openapi", "portico.cli.openapi:run", "print the API's OpenAPI document")
    )
