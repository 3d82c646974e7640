"""What is encrypted under the installation's secret: where it stands, whatever it means."""

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from portico.storage.database import Database, Params, Row, Transaction

BATCH = 500


class Column(NamedTuple):
    """A column that holds what is sealed; what stands in `named_by` tells the name of the seal."""

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
    """All that a column holds, the oldest first, at most `BATCH` at a time: id, what tells the
    seal's name, and what is sealed."""
    after = 0
    while rows := await db.slow.all(_next(where), {"after": after}):
        yield rows
        after = rows[-1][0]


async def replace(tx: Transaction, where: Column, rows: Iterable[Params]) -> None:
    """Puts `sealed` in the place of `before` in the row with an `id`, unless something else, or
    nothing, stands there by now."""
    await tx.run_many(_replace(where), rows)
