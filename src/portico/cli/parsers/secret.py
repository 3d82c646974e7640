"""What can be typed behind `portico secret`."""

from portico.cli.arguments import Commands

_DETAILS = """\
To replace the secret while servers keep running:

1. Give every server the new secret after the current one, and restart it.
2. Put the new secret first everywhere, and restart again.
3. Run this command.
4. Remove the old secret everywhere, and restart.

This command can be interrupted and repeated. It exits with 1 if a value cannot be decrypted with
any of the secrets."""


def add_to(commands: Commands) -> None:
    """Declares `portico secret …`."""
    commands.noun("secret", "replace the installation's secret").verb(
        "reencrypt",
        "portico.cli.secret:run_reencrypt",
        "re-encrypt with the first secret what later ones have encrypted",
        _DETAILS,
    )
