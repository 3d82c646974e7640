"""Whether there is a file."""

from pathlib import Path

import pytest

from portico.files import exists


def test_what_is_there_exists_and_nothing_else_does(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert exists(tmp_path)
    assert exists(tmp_path / "file")
    assert not exists(tmp_path / "other")
    assert not exists(tmp_path / "file/below")


def test_it_is_no_answer_that_the_system_does_not_tell(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        exists(tmp_path / ("x" * 300))
