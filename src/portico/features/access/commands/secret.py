"""`portico secret`: replaces the installation's secret, or starts over without the old one."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from portico.cli.arguments import Commands
from portico.cli.lazy import lazy_imports
from portico.cli.output import CommandError, answer, progress, table

if TYPE_CHECKING:
    from portico.app import Portico
    from portico.settings import Settings

with lazy_imports():
    from portico import secret_file
    from portico.cli import lock, prepared
    from portico.core import audit
    from portico.features.access import sealing, signing

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
        run_reencrypt,
        "re-encrypt with the first secret what later ones have encrypted",
        _REENCRYPT,
    )
    noun.verb(
        "reset", run_reset, "start over with a new secret because the old one is lost", _RESET
    )


def run_reencrypt(settings: Settings, chosen: Namespace) -> int:
    done = prepared.in_both(settings, _reencrypt)
    closed = sum(counts["unreadable"] for counts in done.values())
    headings = ["", *(name.replace("_", " ").upper() for name in done["live"])]
    rows = [[name, *map(str, counts.values())] for name, counts in done.items()]
    changed = any(value for counts in done.values() for value in counts.values())
    then = _next(settings, closed, changed=changed)
    answer(done, f"{table([headings, *rows])}\n\n{then}", as_json=chosen.json)
    return 1 if closed else 0


async def _reencrypt(portico: Portico) -> dict[str, dict[str, int]]:
    done = {}
    for env in portico.environments:
        with progress("Re-encrypting", None, " values") as bar:
            counts, closed = await sealing.reencrypt(env, audit.OPERATOR, bar.update)
        done[env.name] = {**counts, "unreadable": closed}
    return done


def run_reset(settings: Settings, chosen: Namespace) -> None:
    if settings.database_url is not None and secret_file.found_secrets(settings) is None:
        raise CommandError("Give this host the new secret first, by secret_key_file.")
    server = lock.holder(settings.data)
    if server is not None:
        raise CommandError(f"Stop the server first: it is process {server.process}.")
    made = prepared.in_both(settings, _reset, any_secret=True)
    if not any(made.values()):
        raise CommandError(
            "This host's secret decrypts the signing keys of both databases, so it is not lost;"
            " nothing was changed."
        )
    lines = [f"{name}: signing key {kid} signs from now on." for name, kid in made.items() if kid]
    lines.append("Start the servers, and run portico doctor: it says what is unreadable.")
    answer({"signing_keys": made}, "\n".join(lines), as_json=chosen.json)


async def _reset(portico: Portico) -> dict[str, str | None]:
    """The `kid` of the signing key that each environment got, or None if it needed none."""
    return {
        env.name: await env[signing.Signer].start_over(audit.OPERATOR)
        for env in portico.environments
    }


def _next(settings: Settings, closed: int, *, changed: bool) -> str:
    if closed:
        return "Unreadable values need a secret that is not given here: see portico doctor."
    if len(secret_file.found_secrets(settings) or ()) == 1:
        return "There is only one secret, and everything is encrypted under it."
    if not changed:
        return (
            "Nothing was re-encrypted: everything is encrypted under the first secret. If that is"
            " the old one, put the new one first everywhere, restart servers, and run this again."
            " Otherwise remove the others, and restart servers."
        )
    return "Everything is encrypted under the first secret: remove the others, and restart servers."
