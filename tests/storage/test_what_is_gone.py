"""What was deleted or replaced is in no copy of a SQLite database, and its rows are overwritten."""

from pathlib import Path

import apsw
import pytest

from portico.data.sqlite.connection import connect
from portico.data.sqlite.files import copy

CHANGES = pytest.mark.parametrize("change", ["DELETE FROM notes", "UPDATE notes SET text = 'new'"])


def fill(connection: apsw.Connection, size: int) -> None:
    """Makes 500 notes, each of at least so many characters."""
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)").fetchall()
    notes = ((f"old {number} {'x' * size}",) for number in range(500))
    with connection:
        connection.executemany("INSERT INTO notes (text) VALUES (?)", notes).fetchall()


@CHANGES
@pytest.mark.parametrize("size", [10, 20_000])  # many on a page, and pages of their own
def test_what_is_gone_is_overwritten_in_the_file(tmp_path: Path, change: str, size: int) -> None:
    file = tmp_path / "test.db"
    connection = connect(file, create=True)
    fill(connection, size)
    connection.execute(f"{change} WHERE id % 7 <> 0").fetchall()  # what is left is moved together
    connection.execute(f"{change} WHERE id % 7 = 0").fetchall()
    connection.close()
    assert b"old" not in file.read_bytes()


def test_what_is_gone_is_overwritten_in_the_log_by_what_is_written_later(tmp_path: Path) -> None:
    log, connection = tmp_path / "test.db-wal", connect(tmp_path / "test.db", create=True)
    connection.execute("CREATE TABLE later (text TEXT)").fetchall()
    fill(connection, 20_000)  # more than the log is to keep
    assert b"old" in log.read_bytes()
    connection.execute("DELETE FROM notes").fetchall()
    for number in range(1_500):  # more than one log of pages
        connection.execute("INSERT INTO later VALUES (?)", (f"{number} {'y' * 4_000}",)).fetchall()
    assert b"old" not in log.read_bytes()
    connection.close()


def test_a_copy_has_nothing_of_what_another_program_has_left(tmp_path: Path) -> None:
    file, target = tmp_path / "test.db", tmp_path / "copy.db"
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA secure_delete=OFF").fetchall()
    fill(connection, 10)
    connection.execute("DELETE FROM notes").fetchall()
    copy(file, target, lambda _: None)
    connection.close()
    assert b"old" in file.read_bytes()
    assert b"old" not in target.read_bytes()
