"""A backup of an older release restores to what this program serves, or not at all."""

import asyncio
import subprocess
from argparse import Namespace
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from errno import ENOSPC
from pathlib import Path
from typing import TypeVar

import pytest

from driving import FakeClock
from later_release import later_release
from portico.cli.output import CommandError
from portico.data.database import Database, Engine
from portico.data.migrate import Migration, migrate, pending
from portico.engines import SANDBOX, database, database_file
from portico.features.events.audit import RANGE
from portico.features.operations.commands.archive import Manifest, digest, pack
from portico.features.operations.commands.backup import DUMP, ENVIRONMENTS, run_restore
from portico.features.operations.commands.moving import LEFT_OUT
from portico.settings import Settings, load
from servers import PostgresServer

T = TypeVar("T")

LATER: dict[Engine, str] = {
    "sqlite": "CREATE TABLE later (id INTEGER PRIMARY KEY AUTOINCREMENT, a INTEGER)",
    "postgres": "CREATE TABLE later (id BIGINT GENERATED ALWAYS AS IDENTITY, a BIGINT)",
}
"""What the release after this one adds."""

_USER = """
INSERT INTO users (name, name_key, email, email_key, role, plan, theme, language, notifications,
    created_at, updated_at)
VALUES ('Ada', 'ada', 'a@b.test', 'a@b.test', 'admin', 'pro', 'dark', 'en', 1, 1, 1)"""


class Places:
    """Where a release is backed up, and where its backup is restored to: on one engine."""

    def __init__(self, engine: Engine, directory: Path, postgres: PostgresServer | None) -> None:
        self.engine = engine
        self._directory = directory
        self._postgres = postgres

    def new(self, name: str) -> Settings:
        """An empty place."""
        environ = {}
        if self._postgres is not None:
            environ["PORTICO_DATABASE_URL"] = self._postgres.fresh_database()
        return load({"data": str(self._directory / name)}, environ, self._directory)

    def backup(self, *, obstructed: bool = False) -> Path:
        """What this release backs up: one user in either environment; where it is `obstructed`, the
        sandbox cannot get what `LATER` makes."""
        old = self.new(f"old-{obstructed}")
        old.data.mkdir()

        async def fill(environment: str, db: Database) -> None:
            await migrate(db, FakeClock())
            async with db.transaction() as tx:
                await tx.run(_USER)
                if obstructed and environment == SANDBOX:
                    await tx.script("CREATE TABLE later (id BIGINT)")

        of_each(old, fill)
        names = [database_file(old, environment).name for environment in ENVIRONMENTS]
        if old.database_url:
            names = [DUMP]
            dumped = ["pg_dump", "-Fc", "--no-owner", "-f", str(old.data / DUMP), old.database_url]
            subprocess.run(dumped, check=True)
        files = {name: digest(old.data / name, lambda _: None) for name in names}
        archive = self._directory / f"{old.data.name}.tar"
        pack(Manifest("0.1", self.engine, "2026-03-15T12:00:00Z", files), old.data, archive)
        return archive

    def later(self) -> AbstractContextManager[Migration]:
        """The release after this one."""
        return later_release(self._directory / "later", LATER[self.engine])


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """On each engine."""
    is_sqlite = request.param == "sqlite"
    postgres = None if is_sqlite else request.getfixturevalue("postgres")
    return Places(request.param, tmp_path, postgres)


def of_each(settings: Settings, work: Callable[[str, Database], Awaitable[T]]) -> list[T]:
    """What comes of the databases of both environments."""

    async def done(environment: str) -> T:
        db = database(settings, environment, create=True)
        await db.open()
        try:
            return await work(environment, db)
        finally:
            await db.close()

    return [asyncio.run(done(environment)) for environment in ENVIRONMENTS]


def restore(settings: Settings, archive: Path) -> None:
    """`portico restore`."""
    run_restore(settings, Namespace(file=str(archive), json=False))


def test_a_restore_that_cannot_put_all_its_files_in_place_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places("sqlite", tmp_path, None)
    new, archive = places.new("new"), places.backup()
    rename = Path.rename

    def full(path: Path, target: Path) -> Path:
        if target == new.data / "live.db":
            raise OSError(ENOSPC, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(CommandError, match="disk is full"):
        restore(new, archive)
    assert not new.data.exists()
    monkeypatch.undo()
    restore(new, archive)
    assert of_each(new, users) == [[1], [1]]


async def users(_: str, db: Database) -> list[int]:
    """The ids of all users."""
    return [row[0] for row in await db.all("SELECT id FROM users ORDER BY id")]


def test_a_backup_of_an_older_release_is_brought_up_to_date(places: Places) -> None:
    new, archive = places.new("new"), places.backup()

    async def given(_: str, db: Database) -> list[int]:
        assert await pending(db) == []
        async with db.transaction() as tx:
            await tx.run("INSERT INTO later (a) VALUES (1)")
            (made,) = await tx.all("SELECT id FROM later")
            return [*await tx.next_ids("users", 1), made[0]]

    with places.later():
        restore(new, archive)
        assert of_each(new, users) == [[1], [1]]
        for numbers in of_each(new, given):
            assert min(numbers) > LEFT_OUT, "also of what that release did not have"


def test_the_audit_log_of_a_restored_database_goes_on_in_a_range(places: Places) -> None:
    new = places.new("new")
    restore(new, places.backup())

    async def next_place(_: str, db: Database) -> list[str]:
        if db.engine == "sqlite":
            return ["audit"]
        async with db.transaction() as tx:
            rows = await tx.all(
                "INSERT INTO audit (at, action, credential, details)"
                " VALUES (1, 'sign_out', 'none', '{}')"
                " RETURNING CAST(tableoid::regclass AS TEXT)"
            )
        return [row[0] for row in rows]

    for (place,) in of_each(new, next_place):
        assert place in ("audit", f"audit_{(LEFT_OUT + 1) // RANGE}")


def test_a_backup_that_cannot_be_brought_up_to_date_leaves_nothing(places: Places) -> None:
    new, obstructed, archive = places.new("new"), places.backup(obstructed=True), places.backup()
    with places.later():
        with pytest.raises(Exception, match=r"later.* already exists"):
            restore(new, obstructed)
        assert not new.data.exists()
        restore(new, archive)
        assert of_each(new, users) == [[1], [1]]
