"""Declares `portico secret`."""

from portico.cli.arguments import Commands

_REENCRYPT = """\
To replace the secret while servers keep running:

1. Give every server the new secret after the current one, and restart it.
2. Put the new secret first everywhere, and restart again.
3. Run this command.
4. Remove the old secret everywhere, and restart.

This command can be interrupted and repeated. It exits with 1 if a value cannot be decrypted with
any of the secrets."""

_RESET = """\
Use this only if no host, old data directory or backup has a copy of the secret. Stop all servers
first, and give every host the new secret; on SQLite this command makes one.

It makes new signing keys. Accounts, passwords, API keys, sessions, tokens and passkeys stay valid.
What was encrypted under the lost secret stays unreadable: webhooks need new secrets, and accounts
with an authenticator app need portico users reset-second-factor. portico doctor says which."""


def add_to(commands: Commands) -> None:
    """Declares `portico secret …`."""
    noun = commands.noun("secret", "replace the installation's secret")
    noun.verb(
        "reencrypt",
        "portico.cli.secret:run_reencrypt",
        "re-encrypt with the first secret what later ones have encrypted",
        _REENCRYPT,
    )
    noun.verb(
        "reset",
        "portico.cli.secret:run_reset",
        "start over with a new secret because the old one is lost",
        _RESET,
    )
