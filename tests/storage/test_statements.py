"""What is remembered of statements, of which some are made for what is looked for."""

from portico.data.postgres.statements import positional


def test_a_statement_that_nobody_asks_for_any_more_is_forgotten() -> None:
    first, kept = positional("SELECT 0, :id"), positional("SELECT :id, :id")
    for user in range(1, 5_000):
        positional(f"SELECT {user}, :id")
        assert positional("SELECT :id, :id") is kept
    assert kept == ("SELECT $1, $1", ("id",))
    again = positional("SELECT 0, :id")
    assert again == first
    assert again is not first
