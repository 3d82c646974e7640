"""Writes to very many rows in one transaction, some at a time.

SQLite writes on the event loop, where one statement for all rows would hold up every request, and
PostgreSQL cancels statements that take longer than a request may.
"""

import asyncio
from collections.abc import AsyncIterator

from portico.storage.database import Engine, Params, Transaction
from portico.storage.expiry import BATCH

DELETE_BATCH = 20_000
"""The most rows that one statement of PostgreSQL writes."""

AT_ONCE: dict[Engine, int] = {"sqlite": BATCH, "postgres": DELETE_BATCH}


async def in_batches(
    tx: Transaction, engine: Engine, sql: str, params: Params, *, most: int = DELETE_BATCH
) -> AsyncIterator[list[int]]:
    """Runs a statement that writes up to `:limit` rows above the id `:after`, the lowest ids first,
    and returns their ids, until none is left. Yields the ids of each batch. `most` is the most rows
    of a batch, for rows with which many others go."""
    limit, after = min(AT_ONCE[engine], most), 0
    while True:
        rows = await tx.all(sql, {**params, "after": after, "limit": limit})
        ids = [row[0] for row in rows]
        yield ids
        if len(ids) < limit:
            return
        after = max(ids)
        await asyncio.sleep(0)


async def delete_in_batches(
    tx: Transaction, engine: Engine, table: str, key: str, where: str, params: Params
) -> None:
    """Deletes the rows of a table for which a condition holds, by the columns of its primary
    key."""
    limit = AT_ONCE[engine]
    sql = f"""
DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {where} LIMIT :limit)
RETURNING 1"""
    while True:
        if len(await tx.all(sql, {**params, "limit": limit})) < limit:
            return
        await asyncio.sleep(0)


_TOKENS = """
SELECT t.id, g.id FROM grants AS g JOIN tokens AS t ON t.grant_id = g.id
WHERE g.{column} = :owner AND g.id >= :from ORDER BY g.id LIMIT 1000"""


async def delete_grants(tx: Transaction, engine: Engine, column: str, owner: int) -> None:
    """Deletes the grants of one user or client, whose id is in `column`, with their tokens."""
    if engine == "sqlite":  # one grant may have very many tokens
        begin = 0
        tokens = _TOKENS.format(column=column)
        while rows := await tx.all(tokens, {"owner": owner, "from": begin}):
            await tx.run_many("DELETE FROM tokens WHERE id = :id", [{"id": row[0]} for row in rows])
            begin = rows[-1][1]
    await delete_in_batches(tx, engine, "grants", "id", f"{column} = :owner", {"owner": owner})
