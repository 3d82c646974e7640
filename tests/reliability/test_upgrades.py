"""While a newer release migrates, an older one serves beside it: nothing fails, nothing stalls.

The older release is this program. The newer one is this program with migrations of tomorrow.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from driving import Api, Caller, FakeClock, settings_for
from operating import eventually, lateness
from portico.data.database import Database
from portico.data.migrate import Migration, migrate, shipped
from portico.engines import LIVE, database
from servers import PostgresServer

AT_ONCE = 50_000
"""Products that one statement makes."""
STALL_SECONDS = 2.0

_FILL = {
    "sqlite": "WITH RECURSIVE numbers (n) AS"
    " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :many)",
    "postgres": "WITH numbers AS (SELECT n FROM generate_series(1, :many) AS n)",
}
_PRODUCTS = """
INSERT INTO products (name, description, category, price, currency, stock_quantity, status, images,
    metadata, created_at, updated_at)
SELECT 'Lamp', '', 'light', 10000, 'USD', 0, 'active', '[]', '{}', n, n FROM numbers"""


@pytest.fixture
def products(request: pytest.FixtureRequest) -> int:
    many: int = request.config.getoption("--migrated-products")
    return many


@pytest.fixture(params=["sqlite", "postgres"])
async def older(
    request: pytest.FixtureRequest, postgres: PostgresServer, tmp_path: Path, products: int
) -> AsyncIterator[Api]:
    """The older release, with products, on a database that nobody else has."""
    url = {"PORTICO_DATABASE_URL": postgres.fresh_database()} if "post" in request.param else {}
    async with Api(settings_for(tmp_path, url)) as api:
        for left in range(products, 0, -AT_ONCE):
            async with api.live.db.transaction() as tx:
                await tx.run(_FILL[request.param] + _PRODUCTS, {"many": min(left, AT_ONCE)})
        yield api


@pytest.fixture
async def other(older: Api) -> AsyncIterator[Database]:
    """The live database as the newer release has it."""
    other = database(older.settings, LIVE)
    await other.open()
    yield other
    await other.close()


def of_tomorrow(
    db: Database, *texts: str, header: str = "-- compatible from: {newest}\n"
) -> list[Migration]:
    """What this program carries, and further migrations with this header."""
    carried = shipped(db.engine)
    newest = carried[-1].number
    added = [
        Migration(newest + n, "of_tomorrow", header.format(newest=newest) + text)
        for n, text in enumerate(texts, 1)
    ]
    return [*carried, *added]


def indexed(db: Database, name: str, of: str) -> str:
    """A migration that makes an index."""
    concurrently = {"sqlite": "", "postgres": "CONCURRENTLY "}[db.engine]
    return f"""-- concurrently
DROP INDEX {concurrently}IF EXISTS {name};
CREATE INDEX {concurrently}{name} ON products {of};
"""


def expanding(db: Database, products: int) -> list[Migration]:
    """A column that is filled in batches, which an index finds, and an index of it."""
    return of_tomorrow(
        db,
        "ALTER TABLE products ADD COLUMN weight INTEGER NOT NULL DEFAULT 0;",
        indexed(db, "products_unweighed", "(id) WHERE weight = 0 AND name = 'Lamp'"),
        f"""-- in batches
UPDATE products SET weight = 5 WHERE id IN (
    SELECT id FROM products WHERE weight = 0 AND name = 'Lamp'
    ORDER BY id LIMIT {max(200, products // 1000)}
) RETURNING 1""",  # noqa: S608 - a number of ours
        "DROP INDEX products_unweighed;",
        indexed(db, "products_by_weight", "(weight, id)"),
    )


class Load:
    """What clients of the older release do all the time, and what came of it."""

    def __init__(self, api: Api, caller: Caller, products: int) -> None:
        self._api = api
        self._caller = caller
        self._products = products
        self._numbers = itertools.count()
        self.faults: list[str] = []
        self.longest = 0.0
        self.answered = 0

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Several clients read, make and change products meanwhile."""
        clients = [
            asyncio.create_task(self._repeat(what))
            for what in (self._read, self._write, self._change)
        ]
        with lateness() as late:
            try:
                yield
                await self.more(len(clients))
            finally:
                for client in clients:
                    client.cancel()
                await asyncio.gather(*clients, return_exceptions=True)
        assert self.faults == []
        assert self.longest < STALL_SECONDS + late.seconds

    async def more(self, many: int) -> None:
        """Returns once so many more requests were answered."""
        enough = self.answered + many
        await eventually(lambda: self.answered >= enough, "answers")

    async def _repeat(self, what: Callable[[], Awaitable[httpx.Response]]) -> None:
        while True:
            began = time.monotonic()
            answer = await what()
            self.longest = max(self.longest, time.monotonic() - began)
            self.answered += 1
            if answer.status_code not in (200, 201):
                self.faults.append(answer.text)
            await asyncio.sleep(0.002)

    async def _read(self) -> httpx.Response:
        number = next(self._numbers)
        return await self._caller.get(
            f"/products?page={1 + number % 50}" if number % 2 else f"/products/{1 + number % 99}"
        )

    async def _write(self) -> httpx.Response:
        return await self._caller.post(
            "/products", json={"name": "Chair", "category": "light", "price": 1, "currency": "USD"}
        )

    async def _change(self) -> httpx.Response:
        number = next(self._numbers)
        return await self._caller.patch(
            f"/products/{1 + number % self._products}",
            json={"name": "Chair", "category": "light", "price": number, "currency": "USD"},
        )


async def test_older_release_serves_and_comes_back_while_a_newer_one_migrates(
    older: Api,
    other: Database,
    products: int,
    record_property: Callable[[str, object], None],
) -> None:
    load = Load(older, await older.caller(), products)
    carried = expanding(other, products)
    shipped_already = len(shipped(other.engine))
    applied: list[Migration] = []
    took: list[str] = []
    async with load.going_on():
        await load.more(20)  # with statements that are prepared
        for known in range(shipped_already + 1, len(carried) + 1):
            began = time.monotonic()
            applied += await migrate(other, older.clock, carried[:known])
            took.append(f"{time.monotonic() - began:.1f}")
            again = Api(older.settings)
            await again.start()
            await again.stop()
    record_property(
        f"Migrations of {products} products on {other.engine}",
        f"{' + '.join(took)} s, beside {load.answered} requests of which the longest took"
        f" {load.longest:.2f} s",
    )
    assert applied == carried[shipped_already:]
    left = "SELECT count(*) FROM products WHERE name = 'Lamp' AND weight = 0"
    assert [tuple(row) for row in await other.all(left)] == [(0,)]
    assert await migrate(other, older.clock, carried) == []


async def test_migration_that_finds_a_table_in_use_holds_up_nobody_for_long(
    older: Api, other: Database, products: int
) -> None:
    if other.engine == "sqlite":
        pytest.skip("no reader holds up a writer there")
    load = Load(older, await older.caller(), products)
    carried = of_tomorrow(other, "ALTER TABLE products ADD COLUMN weight INTEGER;")
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)
        assert (await other.all("SELECT count(*) FROM schema_migrations"))[0][0] == len(carried) - 1
        release.set()
        await holding

    async def hold() -> None:
        async with older.live.db.transaction() as tx:
            await tx.run("LOCK TABLE products IN ACCESS SHARE MODE")
            held.set()
            await release.wait()

    held, release = asyncio.Event(), asyncio.Event()
    holding = asyncio.create_task(hold())
    await held.wait()
    async with load.going_on(), asyncio.timeout(20):
        assert await migrate(other, FakeClock(), carried, pause) == carried[-1:]
    assert paused == [4.0]
