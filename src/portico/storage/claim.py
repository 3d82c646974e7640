"""A PostgreSQL database that one restore has for itself until it is through."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from portico.domain.errors import Unavailable
from portico.storage.database import AdvisoryLock, Database
from portico.storage.migrate import drop

# The lock is a transaction's, not a session's: so it also holds where a pooler is between, which
# would lend the session, and the lock with it, to others. Between two statements it has no
# snapshot, so nothing waits for its end.
_CLAIM = f"""
SELECT pg_try_advisory_xact_lock({AdvisoryLock.RESTORE}), pg_backend_pid()
FROM set_config('idle_in_transaction_session_timeout', '0', true)"""
_HOLDS = f"""
SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE locktype = 'advisory' AND objid = {AdvisoryLock.RESTORE} AND pid = :pid
    AND datname = current_database()"""

Empty = Callable[[], Coroutine[Any, Any, None]]
"""Removes what was made under a claim. Raises `Unavailable` where the claim was lost."""


@asynccontextmanager
async def claim(db: Database, schemas: Sequence[str]) -> AsyncIterator[Empty]:
    """Keeps every other restore, and `Database.prepare`, from making `schemas`; gives what removes
    those that were made meanwhile. Raises `Unavailable` where another has the database."""
    # Where a restore was cut off, nobody can tell by what is there whether it was stored by this
    # one: who waited behind it may have made the same schemas. So nobody else may make any.
    async with db.transaction() as tx:
        is_ours, pid = (await tx.all(_CLAIM))[0]
        if not is_ours:
            raise Unavailable(
                "Another restore into this database is under way, or a first start: wait for its"
                " end."
            )

        async def empty() -> None:
            if await db.one(_HOLDS, {"pid": pid}) is None:
                raise Unavailable("The connection that kept others out was lost.")
            await drop(db, schemas)

        yield empty
