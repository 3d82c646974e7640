"""Who serves a data directory, as commands see it."""

import fcntl
from pathlib import Path

from portico.cli.lock import NAME, Holder, holder, listening, only_server


def test_a_server_is_known_for_as_long_as_it_runs(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    with only_server(tmp_path, "127.0.0.1", 9443):
        found = holder(tmp_path)
        assert isinstance(found, Holder)
        assert listening(tmp_path) == {"host": "127.0.0.1", "port": 9443}
    assert holder(tmp_path) is None
    assert listening(tmp_path) == {}
    assert (tmp_path / NAME).read_text() == ""


def test_of_two_commands_that_ask_none_takes_the_other_for_a_server(tmp_path: Path) -> None:
    with only_server(tmp_path, "127.0.0.1", 9443):
        pass
    with (tmp_path / NAME).open() as asked:
        fcntl.flock(asked, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as `holder` does it
        assert holder(tmp_path) is None
