"""`portico secret`: replacing the installation's secret."""

import asyncio
from argparse import Namespace

from portico.cli.output import answer, table
from portico.cli.prepared import prepared
from portico.domain.audit import OPERATOR
from portico.secret_file import found_secrets
from portico.services.sealing import reencrypt
from portico.settings import Settings


def run_reencrypt(settings: Settings, chosen: Namespace) -> int:
    done = asyncio.run(_reencrypt(settings))
    closed = sum(counts["unreadable"] for counts in done.values())
    headings = ["", *(name.replace("_", " ").upper() for name in done["live"])]
    rows = [[name, *map(str, counts.values())] for name, counts in done.items()]
    answer(done, f"{table([headings, *rows])}\n\n{_next(settings, closed)}", as_json=chosen.json)
    return 1 if closed else 0


async def _reencrypt(settings: Settings) -> dict[str, dict[str, int]]:
    done = {}
    async with prepared(settings) as portico:
        for env in portico.environments:
            counts, closed = await reencrypt(env, OPERATOR)
            done[env.name] = {**counts, "unreadable": closed}
    return done


def _next(settings: Settings, closed: int) -> str:
    if closed:
        return "Unreadable values need a secret that is not given here: see portico doctor."
    if len(found_secrets(settings) or ()) == 1:
        return "There is only one secret, and everything is encrypted under it."
    return "Everything is encrypted under the first secret: remove the others, and restart servers."
