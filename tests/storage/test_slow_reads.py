"""Reads of a SQLite file that may take long, and their bound."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from portico.core.errors import Unavailable
from portico.data.sqlite.connection import OpenedFile, connect
from portico.data.sqlite.reads import READ_SECONDS, SlowReads

FOR_EVER = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
SELECT count(*) FROM numbers"""


@pytest.fixture
def reads(tmp_path: Path) -> Iterator[SlowReads]:
    """Readers with little timeouts."""
    assert READ_SECONDS == 10
    connect(tmp_path / "test.db", create=True).close()
    made = SlowReads(OpenedFile(tmp_path / "test.db"), seconds=0.05)
    yield made
    made.close()


async def test_a_read_that_takes_too_long_ends_and_leaves_its_place(reads: SlowReads) -> None:
    for _ in range(3):
        with pytest.raises(Unavailable):
            await reads.all(FOR_EVER)
        async with reads.snapshot() as snapshot:
            assert await snapshot.one("SELECT 7") == (7,)
            with pytest.raises(Unavailable):
                await snapshot.all(FOR_EVER)
    assert await reads.one("SELECT 7") == (7,)
