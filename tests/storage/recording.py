"""A database that notes what is asked of it."""

from collections.abc import Awaitable, Callable

from portico.data.database import NOTHING, Database, Params, Reader, Row, T


class Recording:
    """The slow reads of a database, noted before they are passed on."""

    def __init__(
        self, database: Database, reader: Reader, asked: list[tuple[str, Params]] | None = None
    ) -> None:
        self._database = database
        self._slow = reader
        self.asked: list[tuple[str, Params]] = [] if asked is None else asked

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        """See `Reader`."""
        self.asked.append((sql, params))
        return await self._slow.one(sql, params)

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        """See `Reader`."""
        self.asked.append((sql, params))
        return await self._slow.all(sql, params)

    async def plan(self, number: int = -1) -> str:
        """How the engine would run what was asked, most lately unless told otherwise."""
        explain = {"sqlite": "EXPLAIN QUERY PLAN ", "postgres": "EXPLAIN "}
        sql, params = self.asked[number]
        rows = await self._slow.all(explain[self._database.engine] + sql, params)
        return "\n".join(str(row[-1]) for row in rows)


def recorded(database: Database) -> Recording:
    """Notes the slow reads of a database, and those of its snapshots, from now on."""
    recording = Recording(database, database.slow)
    snapshot = database.snapshot

    async def noted(work: Callable[[Reader], Awaitable[T]]) -> T:
        return await snapshot(lambda reader: work(Recording(database, reader, recording.asked)))

    database.slow = recording
    database.snapshot = noted  # type: ignore[method-assign]  # it asks what was asked before
    return recording
