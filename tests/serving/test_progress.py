"""Whatever takes long on a large installation shows its progress on a terminal, and only there."""

from operating import Installation, seen_on_a_terminal
from servers import PostgresServer


def test_a_backup_and_a_restore_show_their_progress(installation: Installation) -> None:
    code, said, seen = seen_on_a_terminal(installation, "backup", "a.tar")
    assert (code, "Backed up" in said) == (0, True)
    for step in ("Copying", "Hashing", "Packing"):
        assert f"{step}: 100%" in seen
    code, said, seen = seen_on_a_terminal(installation, "restore", "a.tar", "--data", "new")
    assert (code, "Restored" in said) == (0, True)
    assert "Unpacking: 100%" in seen


def test_a_backup_and_a_restore_on_postgres_show_their_progress(
    on_postgres: Installation, restored: Installation, postgres: PostgresServer
) -> None:
    archive = str(on_postgres.directory / "a.tar")
    code, said, seen = seen_on_a_terminal(on_postgres, "backup", archive)
    assert (code, "Backed up" in said, "Dumping: " in seen) == (0, True, True)
    target = restored.having(database_url=postgres.fresh_database())
    code, said, seen = seen_on_a_terminal(target, "restore", archive)
    assert (code, "Restored" in said, "Restoring: 100%" in seen) == (0, True, True)
