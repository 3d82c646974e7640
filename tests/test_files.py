"""Whether there is a file, and which."""

from pathlib import Path

from portico.data.disk import exists, resolved


def test_what_is_there_exists_and_nothing_else_does(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert exists(tmp_path)
    assert exists(tmp_path / "file")
    assert not exists(tmp_path / "other")
    assert not exists(tmp_path / "file/below")


def test_loop_of_links_stays_in_the_path(tmp_path: Path) -> None:
    loop, link = tmp_path / "loop", tmp_path / "link"
    loop.symlink_to(loop)
    link.symlink_to(tmp_path / "file")
    assert resolved(link) == tmp_path / "file"
    assert resolved(loop / "below") == loop / "below"
