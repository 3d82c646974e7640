"""A database that notes what is asked of it."""

from portico.storage.database import NOTHING, Database, Params, Row


class Recording:
    """The slow reads of a database, noted before they are passed on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._slow = database.slow
        self.asked: list[tuple[str, Params]] = []

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        """See `Reader`."""
        self.asked.append((sql, params))
        return await self._slow.one(sql, params)

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        """See `Reader`."""
        self.asked.append((sql, params))
        return await self._slow.all(sql, params)

    async def plan(self) -> str:
        """How the engine would run what was asked last."""
        explain = {"sqlite": "EXPLAIN QUERY PLAN ", "postgres": "EXPLAIN "}
        sql, params = self.asked[-1]
        rows = await self._slow.all(explain[self._database.engine] + sql, params)
        return "\n".join(str(row[-1]) for row in rows)


def recorded(database: Database) -> Recording:
    """Notes the slow reads of a database from now on."""
    recording = Recording(database)
    database.slow = recording
    return recording
