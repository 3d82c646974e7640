"""What can be typed behind `portico secret`."""

from portico.cli.arguments import Commands

_DETAILS = """\
The secret is replaced in steps, while servers go on: give all of them the new one after the present
one, then the new one first, each time with a restart; run this; then give them the new one alone.
It may be ended at any time, and done again. Exits with 1 if there is something that no secret here
opens."""


def add_to(commands: Commands) -> None:
    """Declares `portico secret …`."""
    commands.noun("secret", "replace the installation's secret").verb(
        "reencrypt",
        "portico.cli.secret:run_reencrypt",
        "encrypt by the first secret what the ones after it have encrypted",
        _DETAILS,
    )
