"""`portico secret`: replaces the installation's secret, or starts over without the old one."""

import asyncio
from argparse import Namespace

from portico.cli.lock import holder
from portico.cli.output import CommandError, answer, table
from portico.cli.prepared import prepared
from portico.cli.progress import progress
from portico.domain.audit import OPERATOR
from portico.secret_file import found_secrets
from portico.services.sealing import reencrypt
from portico.settings import Settings


def run_reencrypt(settings: Settings, chosen: Namespace) -> int:
    done = asyncio.run(_reencrypt(settings))
    closed = sum(counts["unreadable"] for counts in done.values())
    headings = ["", *(name.replace("_", " ").upper() for name in done["live"])]
    rows = [[name, *map(str, counts.values())] for name, counts in done.items()]
    changed = any(value for counts in done.values() for value in counts.values())
    then = _next(settings, closed, changed=changed)
    answer(done, f"{table([headings, *rows])}\n\n{then}", as_json=chosen.json)
    return 1 if closed else 0


async def _reencrypt(settings: Settings) -> dict[str, dict[str, int]]:
    done = {}
    async with prepared(settings) as portico:
        for env in portico.environments:
            with progress("Re-encrypting", None, " values") as bar:
                counts, closed = await reencrypt(env, OPERATOR, bar.update)
            done[env.name] = {**counts, "unreadable": closed}
    return done


def run_reset(settings: Settings, chosen: Namespace) -> None:
    if settings.database_url is not None and found_secrets(settings) is None:
        raise CommandError("Give this host the new secret first, by secret_key_file.")
    server = holder(settings.data)
    if server is not None:
        raise CommandError(f"Stop the server first: it is process {server.process}.")
    made = asyncio.run(_reset(settings))
    if not any(made.values()):
        raise CommandError(
            "This host's secret decrypts the signing keys of both databases, so it is not lost;"
            " nothing was changed."
        )
    lines = [f"{name}: signing key {kid} signs from now on." for name, kid in made.items() if kid]
    lines.append("Start the servers, and run portico doctor: it says what is unreadable.")
    answer({"signing_keys": made}, "\n".join(lines), as_json=chosen.json)


async def _reset(settings: Settings) -> dict[str, str | None]:
    """The `kid` of the signing key that each environment got, or None if it needed none."""
    async with prepared(settings, any_secret=True) as portico:
        return {env.name: await env.signer.start_over(OPERATOR) for env in portico.environments}


def _next(settings: Settings, closed: int, *, changed: bool) -> str:
    if closed:
        return "Unreadable values need a secret that is not given here: see portico doctor."
    if len(found_secrets(settings) or ()) == 1:
        return "There is only one secret, and everything is encrypted under it."
    if not changed:
        return (
            "Nothing was re-encrypted: everything is encrypted under the first secret. If that is"
            " the old one, put the new one first everywhere, restart servers, and run this again."
            " Otherwise remove the others, and restart servers."
        )
    return "Everything is encrypted under the first secret: remove the others, and restart servers."
