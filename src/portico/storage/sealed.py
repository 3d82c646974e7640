"""The columns that are encrypted under the installation's secret."""

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from portico.storage.database import Database, Params, Row, Transaction

BATCH = 500


class Column(NamedTuple):
    """An encrypted column. The seal's name is made from the value in the column `named_by`."""

    table: str
    column: str
    named_by: str = "id"


COLUMNS = (
    Column("signing_keys", "private_key", named_by="kid"),
    Column("webhooks", "secret"),
    Column("webhooks", "former_secret"),
    Column("authenticators", "secret", named_by="user_id"),
    Column("mails", "content"),
)


def _next(where: Column) -> str:
    return f"""
SELECT id, {where.named_by}, {where.column} FROM {where.table}
WHERE id > :after AND {where.column} IS NOT NULL ORDER BY id LIMIT {BATCH}"""


def _replace(where: Column) -> str:
    return f"""
UPDATE {where.table} SET {where.column} = :sealed WHERE id = :id AND {where.column} = :before"""


async def batches(db: Database, where: Column) -> AsyncIterator[list[Row]]:
    """All values of a column, oldest first, at most `BATCH` at a time. Each row has the id, the
    value that gives the seal's name, and the encrypted value."""
    after = 0
    while rows := await db.slow.all(_next(where), {"after": after}):
        yield rows
        after = rows[-1][0]


async def replace(tx: Transaction, where: Column, rows: Iterable[Params]) -> None:
    """Replaces `before` by `sealed` in the row with this `id`, unless the value was changed or
    removed meanwhile."""
    await tx.run_many(_replace(where), rows)
