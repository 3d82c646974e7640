"""Pages at any depth are those of a plain list (`data.listing`)."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driving import NOON
from portico.data.database import Database, Params
from portico.data.listing import DEEP, Listing, Order
from portico.data.table import Table
from portico.features.people.storage import Users
from storage.recording import recorded

COUNT = 3 * DEEP + 7
INSERT = """
INSERT INTO users (name, name_key, email, email_key, role, plan, theme, language, notifications,
    created_at, updated_at)
VALUES (:key, :key, :email, :email, :role, 'free', 'system', 'en', 1, :now, :now)"""
ROLES = ("admin", "editor", "viewer")
Row = tuple[int, str, str]


class Item(msgspec.Struct):
    """What the pages show of a user."""

    id: int
    name_key: str
    role: str


async def fill(database: Database) -> list[Row]:
    """Users with many equal names; editors are most of them."""
    rows = [
        {
            "key": f"{number * 7919 % 40:02}",
            "email": f"{number}@x.com",
            "role": ROLES[1 if number % 8 else number // 8 % 3],
            "now": NOON,
        }
        for number in range(COUNT)
    ]
    async with database.transaction() as tx:
        await tx.run_many(INSERT, rows)
    return [(n + 1, str(row["key"]), str(row["role"])) for n, row in enumerate(rows)]


def plain(rows: list[Row], order: Order, role: str | None) -> list[Row]:
    column = {"id": 0, "name_key": 1}[order.column]
    chosen = [row for row in rows if role in (None, row[2])]
    return sorted(chosen, key=lambda row: (row[column], row[0]), reverse=order.descending)


PAGES = st.lists(
    st.tuples(
        st.one_of(st.integers(0, COUNT + 20), st.integers(COUNT - 30, COUNT + 5)),
        st.sampled_from([1, 2, 25, 100]),
        st.sampled_from([None, *ROLES]),
        st.sampled_from(["id", "name_key"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture
async def filled(database: Database) -> tuple[Database, Listing[Item], list[Row]]:
    """A long list, with one `Listing` for all examples: it learns how long the list is."""
    rows = await fill(database)
    return database, Listing(database, Table("users", Item)), rows


async def give_role(database: Database, numbers: set[int], role: str) -> None:
    async with database.transaction() as tx:
        for number in sorted(numbers):
            sql = "UPDATE users SET role = :role WHERE id = :id"
            await tx.run(sql, {"id": number, "role": role})


@given(pages=PAGES, moved=st.sets(st.integers(1, COUNT), max_size=3))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_every_page_is_that_of_a_plain_list(
    filled: tuple[Database, Listing[Item], list[Row]],
    pages: list[tuple[int, int, str | None, str, bool]],
    moved: set[int],
) -> None:
    database, listing, rows = filled
    rows = [(n, name, "viewer" if n in moved else role) for n, name, role in rows]
    await give_role(database, moved, "viewer")
    for offset, limit, role, column, descending in pages:
        order = Order(column, descending)
        params: Params = {"role": role} if role else {}
        expected = plain(rows, order, role)
        for kept in ("key = :role" if role else "TRUE", None):
            page = await listing.page(
                "role = :role" if role else "TRUE",
                params,
                order=order,
                offset=offset,
                limit=limit,
                kept=kept,
            )
            assert [msgspec.structs.astuple(item) for item in page.rows] == expected[
                offset : offset + limit
            ]
            assert page.total == len(expected)
    for number, _, role in filled[2]:
        if number in moved:
            await give_role(database, {number}, role)


WALKED = {
    ("created_at", None): "users_by_created_at",
    ("email_key", None): "sqlite_autoindex_users_1",
    ("name_key", None): "users_by_name",
    ("created_at", "editor"): "users_by_role_and_time",
    ("email_key", "editor"): "users_by_role_and_email",
    ("name_key", "editor"): "users_by_role_and_name",
}


async def test_a_page_of_users_is_found_in_the_index_of_its_order(
    filled: tuple[Database, Listing[Item], list[Row]],
) -> None:
    database, _, _ = filled
    if database.engine == "postgres":  # its planner knows how many there are
        return
    asked = recorded(database)
    database.all = asked.all  # type: ignore[method-assign]  # a page may be read at once
    users = Users(database)
    for (column, role), index in WALKED.items():
        order = Order(column, descending=False)
        page = await users.page(role=role, order=order, offset=0, limit=5)
        for offset, behind in ((0, None), (DEEP + 1, None), (0, page.next)):
            await users.page(role=role, order=order, offset=offset, limit=5, behind=behind)
            plan = await asked.plan()
            assert f"INDEX {index}" in plan
        assert "MERGE (UNION ALL)" in plan, "nothing is sorted"
        if column != "email_key":  # of which there are no two
            assert f"{column}=? AND id>?" in plan, "those that are equal are not passed"
