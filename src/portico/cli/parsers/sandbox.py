"""Declares `portico sandbox`."""

from portico.cli.arguments import Commands, add_yes

_DETAILS = """\
All products and all other users are deleted. Mirror users of live accounts stay, with their keys
and sessions, and so do events, webhooks, OAuth clients and the audit log. Live data is never
touched. Sample users have no password, so nobody can sign in as one; portico keys create --sandbox
--type test creates keys for them."""


def add_to(commands: Commands) -> None:
    """Declares `portico sandbox …`."""
    add_yes(
        commands.noun("sandbox", "fill the sandbox with sample data").verb(
            "reset",
            "portico.cli.sandbox:run_reset",
            "replace the sandbox's contents with sample data",
            _DETAILS,
        )
    )
