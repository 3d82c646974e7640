"""What a transaction writes last (`Transaction.conclude`), and in how many exchanges PostgreSQL is
asked."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from driving import NOON
from portico.core.audit import OPERATOR
from portico.core.events import Published
from portico.data.database import Database
from portico.data.migrate import migrate
from portico.data.postgres.engine import PostgresDatabase
from portico.data.postgres.notices import NUMBER
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.rules import Product
from portico.features.catalogue.storage import Products
from portico.features.events.audit import Audit
from portico.features.events.storage import Events
from servers import PostgresServer
from storage.lamp import LAMP

ADD = "INSERT INTO events_removed (one, up_to) VALUES (1, :up_to)"
MOVE = "UPDATE events_removed SET up_to = :up_to WHERE up_to = :before RETURNING one"
OTHER = "INSERT INTO audit_removed (one, up_to) VALUES (1, :up_to)"


class NotThereError(Exception):
    """What a transaction of these tests ends with."""


async def up_to(database: Database, sql: str = "SELECT up_to FROM events_removed") -> int | None:
    row = await database.one(sql)
    return row[0] if row else None


async def test_what_is_written_last_is_seen_by_the_next_statement(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.conclude(ADD, {"up_to": 7})
        row = await tx.one("SELECT up_to FROM events_removed")
        assert row is not None
        assert row[0] == 7
        await tx.conclude(MOVE, {"up_to": 8, "before": 7}, NotThereError())
        await tx.conclude(MOVE, {"up_to": 9, "before": 8}, NotThereError())
    assert await up_to(database) == 9


@pytest.mark.parametrize("begun", [True, False])
async def test_one_that_gives_no_row_undoes_all_others(database: Database, *, begun: bool) -> None:
    async def write() -> None:
        async with database.transaction() as tx:
            if begun:
                await tx.one("SELECT 1")
            await tx.conclude(OTHER, {"up_to": 7})
            await tx.conclude(MOVE, {"up_to": 8, "before": 7}, NotThereError())

    with pytest.raises(NotThereError):
        await write()
    assert await up_to(database, "SELECT up_to FROM audit_removed") is None


@pytest.fixture
async def asked(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Database, list[str]]]:
    """A database, and the statements that PostgreSQL was asked for."""
    statements: list[str] = []

    async def connect(*where: Any, **how: Any) -> Any:
        connection = await connect_plainly(*where, **how)
        connection.add_query_logger(lambda record: statements.append(record.query))
        return connection

    connect_plainly = asyncpg.connect
    monkeypatch.setattr(asyncpg, "connect", connect)
    database = PostgresDatabase(postgres.fresh_database(), "public")
    await database.open()
    await migrate(database, lambda: NOON)
    statements.clear()
    yield database, statements
    await database.close()


async def store(database: Database, *, changed: Product | None = None) -> Product:
    """Makes a product, or changes one, with what belongs to it."""
    products = Products(database)
    async with database.transaction() as tx:
        if changed is None:
            stored: Product = await products.insert(tx, LAMP)
        else:
            stored = changed
            before = await products.get(changed.id, tx)
            assert before is not None
            await products.update(tx, before, changed)
        await Audit(database).record(tx, OPERATOR.actor, NOON, PRODUCTS.created(stored))
        await Events(database).add(tx, NOON, Published("product.created", "{}"))
    await asyncio.sleep(0)  # what was asked last is told now
    return stored


def shortly(statements: list[str]) -> list[str]:
    """How they begin, without the looks whether the server is there, and whether notices came."""
    asked = [one for one in statements if one not in ("SELECT 1", NUMBER)]
    return [" ".join(one.split()[:2]) for one in asked]


async def test_a_product_is_made_by_one_statement_that_is_a_transaction(
    asked: tuple[Database, list[str]],
) -> None:
    database, statements = asked
    await store(database)
    given, made = shortly(statements)[-2:]
    assert (given, made) == ("SELECT nextval(pg_get_serial_sequence($1,", "WITH part_0")
    assert "BEGIN;" not in shortly(statements)


async def test_a_product_that_is_locked_is_changed_by_one_more(
    asked: tuple[Database, list[str]],
) -> None:
    database, statements = asked
    stored = await store(database)
    statements.clear()
    await store(database, changed=replace(stored, name="Other"))
    assert len(shortly(statements)) == 4  # BEGIN, SELECT … FOR UPDATE, all that is written, COMMIT
