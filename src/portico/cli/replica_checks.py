"""The check of the standbys for `portico doctor`."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from portico.cli.findings import Finding, notice, ok, problem
from portico.domain.errors import Unavailable
from portico.domain.health import BEHIND, FOREIGN, OK, PRIMARY, SILENT
from portico.engines import LIVE, database
from portico.settings import Settings
from portico.storage.database import Database, ReplicaState

LOOK_SECONDS = 0.1
LOOKS = 30

MESSAGES = {
    SILENT: "does not answer",
    BEHIND: "is behind",
    FOREIGN: "leads to another database than the primary",
}
"""Why a standby does not answer lists, by its state."""

ADVICE = {
    SILENT: "check that it runs and accepts the role and password of PORTICO_DATABASE_READ_URL from"
    " this machine",
    BEHIND: "check that it streams from the primary; after a failover it is used again from its"
    " next checkpoint on, or at once if the role has pg_read_all_stats",
    FOREIGN: "name standbys of PORTICO_DATABASE_URL in PORTICO_DATABASE_READ_URL, and the same"
    " database",
}
"""What to do about such a standby. Until then the primary answers in its place."""


async def replicas(settings: Settings) -> AsyncIterator[Finding]:
    """Whether each standby of `database_read_url` answers and follows the primary closely."""
    if settings.database_url is None or settings.database_read_url is None:
        return
    db = database(settings, LIVE)
    try:
        await db.open()
        found = await _judged(db)
    except Unavailable:
        return  # the check of the database reports it
    finally:
        await db.close()
    for name, state in found.items():
        yield _finding(name, state)
    if all(state.word == PRIMARY for state in found.values()):
        advice = "name standbys in PORTICO_DATABASE_READ_URL"
        yield notice("standbys", "no server is a standby: the primary answers lists", advice)


async def _judged(db: Database) -> Mapping[str, ReplicaState]:
    """The states of the standbys, once all answer lists or the time for that is over."""
    for _ in range(LOOKS):
        if all(state.word in (OK, PRIMARY) for state in db.replicas().values()):
            break
        await asyncio.sleep(LOOK_SECONDS)
    return db.replicas()


def _finding(name: str, state: ReplicaState) -> Finding:
    check = f"standby {name}"
    if state.word == OK:
        return ok(check, f"answers lists, {state.lag:.1f} s behind")
    if state.word == PRIMARY:
        return ok(check, "is the primary for now, so it is not used for lists")
    message = MESSAGES.get(state.word, state.word) + (f" ({state.reason})" if state.reason else "")
    advice = ADVICE.get(state.word, "read its log")
    return problem(check, f"{message}: the primary answers in its place", advice)
