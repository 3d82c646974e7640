"""This program as a later release has it: with one more migration."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from portico.data import migrate
from portico.data.migrate import Migration, shipped


@contextmanager
def later_release(directory: Path, sql: str) -> Iterator[Migration]:
    """Ships a further migration, the same for both engines, in this process. `directory` must not
    exist yet; the files go there."""
    number = len(shipped("sqlite")) + 1
    with as_file(files("portico.data") / "migrations") as source:
        shutil.copytree(source, directory / "migrations")
    for engine in ("sqlite", "postgres"):
        (directory / "migrations" / engine / f"{number:04d}_later.sql").write_text(sql)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "files", lambda _: directory)
        shipped.cache_clear()
        try:
            yield Migration(number, "later", sql)
        finally:
            shipped.cache_clear()
