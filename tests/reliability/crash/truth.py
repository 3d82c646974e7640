"""What a database holds, read beside the server that uses it."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from portico.data.sqlite.connection import connect
from reliability.crash.ledger import COLUMNS, Kind, Resource, Row, settle

COUNTED: dict[Kind, str] = {
    "product": "SELECT status, count(*) FROM products GROUP BY status",
    "user": "SELECT role, count(*) FROM users GROUP BY role",
}
TOTALS = (
    "SELECT key, CAST(sum(total) AS BIGINT) FROM list_counts WHERE list = '{kind}s' GROUP BY key"
)


@dataclass(frozen=True)
class Truth:
    """One database: `read` runs a statement, `word_id` is the id's name in the search index."""

    read: Callable[[str], list[Row]]
    word_id: str

    def check(self, kind: Kind, resources: Iterable[Resource]) -> dict[str, Resource]:
        """Sees that every resource is what it may be, and every total what counting gives. Returns
        those that are there, by tag."""
        tagged = f"SELECT {COLUMNS[kind]} FROM {kind}s WHERE name LIKE '% v%'"  # noqa: S608 - constants
        found = settle(kind, resources, self.read(tagged))
        kept = {key: total for key, total in self.read(TOTALS.format(kind=kind)) if total}
        assert kept == dict(self.read(COUNTED[kind]))
        if kind == "product":
            indexed = self.read(f"SELECT {self.word_id} FROM product_words")  # noqa: S608 - constants
            assert sorted(row[0] for row in indexed) == sorted(
                one.id or 0 for one in found.values()
            )
        return found

    def rotations(self, name: str) -> tuple[int, int]:
        """How many keys of this name there are, and how many of them were rotated."""
        (row,) = self.read(
            f"SELECT count(*), count(rotated_at) FROM api_keys WHERE name = '{name}'"  # noqa: S608 - a test's name
        )
        return row[0], row[1]


def of_sqlite(path: Path) -> Truth:
    """That of an SQLite file."""

    def read(sql: str) -> list[Row]:
        connection = connect(path)
        try:
            return list(connection.execute(sql).fetchall())
        finally:
            connection.close()

    return Truth(read, "rowid")


def of_postgres(url: str) -> Truth:
    """That of the live environment in a PostgreSQL database."""

    async def fetch(sql: str) -> list[Row]:
        settings = {"search_path": "portico_live", "application_name": "truth"}
        connection = await asyncpg.connect(url, server_settings=settings)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    return Truth(lambda sql: asyncio.run(fetch(sql)), "id")
