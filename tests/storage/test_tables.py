"""What follows from a table's record: columns, statements, rows (`data.table`)."""

from typing import Any

import msgspec
import pytest

from portico.data.database import Database
from portico.data.table import BOOLEAN, SCOPES, Table, cuts, json_form
from portico.features.access.storage import API_KEYS, CLIENTS, CODES, GRANTS, SIGNING_KEYS, TOKENS
from portico.features.catalogue.products import PRODUCTS as PRODUCT_KIND
from portico.features.events.audit import AUDIT, AuditRanges
from portico.features.people.storage import EMAIL_TOKENS, INVITATIONS, OWNERS, USERS
from portico.features.signin.storage import SESSIONS

PRODUCTS, LISTED = PRODUCT_KIND.table, PRODUCT_KIND.listing
COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info(:name)",
    "postgres": "SELECT column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND table_name = :name",
}

# The keys of an index, columns and expressions alike, and the columns that its condition reads.
UNORDERED = """
SELECT indexrelid::regclass::text, collname FROM pg_index JOIN pg_class AS i ON i.oid = indexrelid,
    unnest(indcollation) AS key JOIN pg_collation AS c ON c.oid = key
WHERE relnamespace = to_regnamespace(current_schema()) AND collname <> 'C'
UNION
SELECT indexrelid::regclass::text, collname FROM pg_index JOIN pg_class AS i ON i.oid = indexrelid
    JOIN pg_depend ON classid = 'pg_class'::regclass AND objid = indexrelid
        AND refclassid = 'pg_class'::regclass
    JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
    JOIN pg_collation AS c ON c.oid = attcollation
WHERE relnamespace = to_regnamespace(current_schema()) AND collname <> 'C'"""


class Thing(msgspec.Struct, frozen=True):
    id: int
    name: str
    on: bool
    scopes: frozenset[str]
    places: tuple[str, ...]
    note: str = ""


THINGS = Table(
    "things",
    Thing,
    forms={"on": BOOLEAN, "scopes": SCOPES, "places": json_form(tuple[str, ...])},
    keys={"name_key": lambda thing: thing.name.lower()},
    secrets=("digest",),
    fixed=("on",),
)
LAMP = Thing(
    id=7,
    name="Lamp",
    on=True,
    scopes=frozenset({"write:products", "openid"}),
    places=("a", "b"),
)
STORED: tuple[object, ...] = (7, "Lamp", 1, "openid write:products", '["a","b"]', "")


def test_a_record_is_stored_in_the_form_of_its_columns_and_read_from_it() -> None:
    values = THINGS.values(LAMP)
    assert tuple(values[name] for name in THINGS.names) == STORED
    assert values["name_key"] == "lamp"
    assert THINGS.read(STORED) == LAMP


def test_a_joined_row_is_cut_where_one_table_ends_and_the_next_begins() -> None:
    ada: tuple[object, ...] = ("ada@example.com", "Ada", "admin", "pro", None, None)
    row = (*ada, *STORED)
    owner, thing = cuts(OWNERS, THINGS)
    assert row[owner] == ada
    assert THINGS.read(row[thing]) == LAMP


BESIDE = {"api_keys": {"reminded_at"}}
"""Columns that stand in no record: what a job writes down for itself."""


DECLARED: list[Table[Any]] = [
    *(USERS, OWNERS, PRODUCTS, LISTED, API_KEYS, CLIENTS, SESSIONS, GRANTS, TOKENS, CODES),
    *(EMAIL_TOKENS, INVITATIONS, SIGNING_KEYS, AUDIT),
]


async def test_declared_tables_fit_those_that_the_migrations_make(database: Database) -> None:
    for table in DECLARED:
        rows = await database.all(COLUMNS[database.engine], {"name": table.name})
        there = {row[0] for row in rows}
        assert set(table.written) <= there, table.name
        if table not in (OWNERS, LISTED):
            assert there - {"id"} - BESIDE.get(table.name, set()) == set(table.written)


@pytest.mark.parametrize("another", ["own postgres"], indirect=True)
async def test_every_text_in_an_index_is_in_the_order_of_its_bytes(database: Database) -> None:
    async with database.transaction() as tx:
        await AuditRanges(database).make(tx, 2)
    assert [tuple(row) for row in await database.all(UNORDERED)] == []
    async with database.transaction() as tx:
        await tx.script("CREATE INDEX by_key ON users (language)")
        await tx.script("CREATE INDEX by_expression ON users (lower(theme), (email || role))")
        await tx.script("CREATE INDEX by_condition ON users (id) WHERE theme = 'dark'")
    found = {row[0] for row in await database.all(UNORDERED)}
    assert found == {"by_key", "by_expression", "by_condition"}, "the query finds all kinds"
