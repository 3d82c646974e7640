"""Connecting to both databases, or to neither: what fails leaves nothing open."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from driving import FakeClock, settings_for
from first_start import prepare
from portico.app import Portico
from portico.core.errors import Unavailable


def open_files(directory: Path) -> set[str]:
    """The names of the files of a directory that this process has open."""
    paths = [one.resolve() for one in Path("/proc/self/fd").iterdir()]
    return {path.name for path in paths if path.parent == directory.resolve()}


def remove(file: Path) -> None:
    file.unlink()


def leave_no_database(file: Path) -> None:
    file.write_bytes(b"no database" * 1000)


@pytest.mark.parametrize("damage", [remove, leave_no_database])
async def test_first_database_is_closed_where_the_second_does_not_open(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    settings = settings_for(tmp_path, {})
    await prepare(settings, FakeClock())
    damage(tmp_path / "sandbox.db")
    tasks = asyncio.all_tasks()
    with pytest.raises(Unavailable, match=r"sandbox\.db"):
        await Portico(settings).connect()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks
    assert open_files(tmp_path) == set()
