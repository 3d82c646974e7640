"""One PostgreSQL database for many tests, whose connections stay open."""

from typing import Any

import pytest

from busy_machine import leave_versions_time
from portico.data.postgres.engine import PostgresDatabase
from portico.engines import database_schema
from portico.settings import Settings

EMPTY = """
DO $$
DECLARE
    one record;
BEGIN
    -- No trigger counts, tells or refuses, and no reference is looked up.
    PERFORM set_config('session_replication_role', 'replica', true);
    FOR one IN SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'portico_%'
        AND tablename NOT IN ('schema_migrations', 'signing_keys', 'notices')
    LOOP
        EXECUTE format('DELETE FROM %I.%I', one.schemaname, one.tablename);
    END LOOP;
    FOR one IN SELECT schemaname, sequencename FROM pg_sequences
        WHERE schemaname LIKE 'portico_%' AND last_value IS NOT NULL
    LOOP
        PERFORM setval(format('%I.%I', one.schemaname, one.sequencename)::regclass, 1, false)
            WHERE one.sequencename NOT LIKE 'signing_keys%';
    END LOOP;
END $$"""
"""Signing keys stay: nothing refers to them, and creating one takes a tenth of a second. Deleting a
few rows is ten times as fast as truncating every table."""


DROP_KINDS = """
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'portico_%'
        AND (tablename = 'kinds' OR tablename LIKE 'kind\\_%')
    LOOP
        EXECUTE format('DROP TABLE %I.%I CASCADE', one.schemaname, one.tablename);
        EXECUTE format(
            'DROP FUNCTION IF EXISTS %I.%I', one.schemaname, one.tablename || '__counted');
    END LOOP;
END $$"""


class Kept(PostgresDatabase):
    """A database that stays connected when a test closes it, for the next test that opens it."""

    def __init__(self, url: str, schema: str, idle: "list[Kept]") -> None:
        with pytest.MonkeyPatch.context() as patch:
            leave_versions_time(patch)
            super().__init__(url, schema)
        self._idle = idle

    async def open(self) -> None:
        if self._listener is None:
            await super().open()

    async def close(self) -> None:
        if self._listener is None or self._listener.done():  # the test has crashed it
            await self.end()
        else:
            self._idle.append(self)

    async def end(self) -> None:
        """Closes the connections."""
        await super().close()


class SharedDatabase:
    """A PostgreSQL database that many tests use one after the other. Emptying it is faster than
    creating another, and open connections have its tables and statements cached."""

    def __init__(self, url: str, connection: Any) -> None:
        self.url = url
        self._connection = connection
        self._idle: dict[str, list[Kept]] = {}

    async def drop_kinds(self) -> None:
        """Removes the tables of kinds that a test has declared."""
        await self._connection.execute(DROP_KINDS)

    async def empty(self) -> None:
        """Removes what tests have left."""
        await self._connection.execute(EMPTY)

    def database(self, _: Settings, environment: str, **_create: bool) -> Kept:
        """Replaces `portico.app.database`."""
        idle = self._idle.setdefault(environment, [])
        return idle.pop() if idle else Kept(self.url, database_schema(environment), idle)

    async def end(self) -> None:
        """Closes all connections."""
        for kept in self._idle.values():
            for database in kept:
                await database.end()
        await self._connection.close()
