"""A backup of an older release restores to what this program serves, or not at all."""

import asyncio
import subprocess
from argparse import Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from driving import FakeClock
from later_release import later_release
from portico.data.database import Database, Engine
from portico.data.migrate import migrate, pending
from portico.engines import SANDBOX, database, database_file
from portico.features.events.audit import RANGE
from portico.features.operations.commands.archive import Manifest, digest, pack
from portico.features.operations.commands.backup import DUMP, ENVIRONMENTS, run_restore
from portico.features.operations.commands.moving import LEFT_OUT
from portico.settings import Settings, load
from servers import PostgresServer

T = TypeVar("T")

LATER = {
    "sqlite": "CREATE TABLE later (id INTEGER PRIMARY KEY AUTOINCREMENT, a INTEGER)",
    "postgres": "CREATE TABLE later (id BIGINT GENERATED ALWAYS AS IDENTITY, a BIGINT)",
}
"""What the release after this one adds."""

USER = """
INSERT INTO users (name, name_key, email, email_key, role, plan, theme, language, notifications,
    created_at, updated_at)
VALUES ('Ada', 'ada', 'a@b.test', 'a@b.test', 'admin', 'pro', 'dark', 'en', 1, 1, 1)"""
ENTRY = """
INSERT INTO audit (at, action, credential, details) VALUES (1, 'sign_out', 'none', '{}')
RETURNING CAST(tableoid::regclass AS TEXT)"""


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


def backup(old: Settings, *, obstructed: bool) -> Path:
    """A backup of this release with a user in either environment. If `obstructed`, the sandbox
    cannot get what `LATER` makes."""
    old.data.mkdir()

    async def fill(environment: str, db: Database) -> None:
        await migrate(db, FakeClock())
        async with db.transaction() as tx:
            await tx.run(USER)
            if obstructed and environment == SANDBOX:
                await tx.script("CREATE TABLE later (id BIGINT)")

    of_each(old, fill)
    names = [database_file(old, environment).name for environment in ENVIRONMENTS]
    if old.database_url:
        names = [DUMP]
        dumped = ["pg_dump", "-Fc", "--no-owner", "-f", str(old.data / DUMP), old.database_url]
        subprocess.run(dumped, check=True)
    files = {name: digest(old.data / name, lambda _: None) for name in names}
    engine: Engine = "postgres" if old.database_url else "sqlite"
    archive = old.data.with_suffix(".tar")
    pack(Manifest("0.1", engine, "2026-03-15T12:00:00Z", files), old.data, archive)
    return archive


async def users(_: str, db: Database) -> list[int]:
    return [row[0] for row in await db.all("SELECT id FROM users ORDER BY id")]


async def numbers(_: str, db: Database) -> list[int]:
    """The next numbers of an old table and of a new one."""
    assert await pending(db) == []
    async with db.transaction() as tx:
        if db.engine == "postgres":
            partition = await tx.all(ENTRY)
            assert partition[0][0] in ("audit", f"audit_{(LEFT_OUT + 1) // RANGE}")
        await tx.run("INSERT INTO later (a) VALUES (1)")
        (made,) = await tx.all("SELECT id FROM later")
        return [*await tx.next_ids("users", 1), made[0]]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_backup_of_an_older_release_is_brought_up_to_date_or_leaves_nothing(
    tmp_path: Path, postgres: PostgresServer, engine: str
) -> None:
    def place(name: str) -> Settings:
        url = {"PORTICO_DATABASE_URL": postgres.fresh_database()} if engine == "postgres" else {}
        return load({"data": str(tmp_path / name)}, url, tmp_path)

    def restore(archive: Path) -> None:
        run_restore(new, Namespace(file=str(archive), json=False))

    new = place("new")
    obstructed = backup(place("obstructed"), obstructed=True)
    archive = backup(place("old"), obstructed=False)
    with later_release(tmp_path / "later", LATER[engine]):
        with pytest.raises(Exception, match=r"later.* already exists"):
            restore(obstructed)
        assert not new.data.exists()
        restore(archive)
        assert of_each(new, users) == [[1], [1]]
        assert min(min(found) for found in of_each(new, numbers)) > LEFT_OUT
