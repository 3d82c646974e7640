"""Exclusive use of a PostgreSQL database by one restore, until it is finished."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from portico.domain.errors import Unavailable
from portico.storage.database import AdvisoryLock, Database
from portico.storage.migrate import drop

# The lock belongs to a transaction, not to a session, so that it also works through a pooler, which
# would lend the session, and the lock with it, to others. Between two statements the transaction
# has no snapshot, so nothing waits for its end.
_CLAIM = f"""
SELECT pg_try_advisory_xact_lock({AdvisoryLock.RESTORE}), pg_backend_pid()
FROM set_config('idle_in_transaction_session_timeout', '0', true)"""
_HOLDS = f"""
SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE locktype = 'advisory' AND objid = {AdvisoryLock.RESTORE} AND pid = :pid
    AND datname = current_database()"""

Empty = Callable[[], Coroutine[Any, Any, None]]
"""Removes the schemas created under a claim. Raises `Unavailable` if the claim was lost."""


@asynccontextmanager
async def claim(db: Database, schemas: Sequence[str]) -> AsyncIterator[Empty]:
    """Prevents other restores, and `Database.prepare`, from creating `schemas`; yields a function
    that removes those created meanwhile. Raises `Unavailable` if another process has the lock."""
    # After an interrupted restore, the content of the schemas does not tell whether this restore
    # created them: a process that waited for it might have. So no other process may create any.
    async with db.transaction() as tx:
        is_ours, pid = (await tx.all(_CLAIM))[0]
        if not is_ours:
            raise Unavailable(
                "Another restore into this database, or a first start, is under way: wait until it"
                " has ended."
            )

        async def empty() -> None:
            if await db.one(_HOLDS, {"pid": pid}) is None:
                raise Unavailable("The connection that holds this restore's lock was lost.")
            await drop(db, schemas)

        yield empty
