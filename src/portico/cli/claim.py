"""The claim of a restore on its database, for synchronous code."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace

from portico.domain.errors import PorticoError
from portico.engines import LIVE, database
from portico.settings import Settings
from portico.storage.claim import Empty, claim


@contextmanager
def claimed(settings: Settings, schemas: Sequence[str]) -> Iterator[Callable[[], None]]:
    """`claim` through the direct address, which PostgreSQL's own programs also use. The block may
    run synchronous code and event loops of its own."""
    with asyncio.Runner() as runner:
        claiming = _claiming(settings, schemas)
        empty = runner.run(claiming.__aenter__())
        try:
            yield lambda: runner.run(empty())
        finally:
            with suppress(PorticoError):  # the claim was lost, so there is nothing to release
                runner.run(claiming.__aexit__(None, None, None))


@asynccontextmanager
async def _claiming(settings: Settings, schemas: Sequence[str]) -> AsyncIterator[Empty]:
    direct = settings.database_listen_url or settings.database_url
    alone = replace(settings, database_url=direct, database_listen_url=None, database_read_url=None)
    db = database(alone, LIVE)
    await db.open()
    try:
        async with claim(db, schemas) as empty:
            yield empty
    finally:
        await db.close()
