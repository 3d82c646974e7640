"""What is told as written is there for good, and whether there is a file, and which."""

import errno
import os
from pathlib import Path

import pytest

from portico.data.disk import exists, replace_durably, resolved, write_durably


def test_a_file_is_on_disk_before_its_name_and_its_name_before_anybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "draft").write_text("new")
    (tmp_path / "file").write_text("old")
    stored: list[tuple[bool, list[str]]] = []
    store = os.fsync

    def seen(descriptor: int) -> None:
        is_directory = os.path.samestat(os.fstat(descriptor), tmp_path.stat())
        stored.append((is_directory, sorted(path.name for path in tmp_path.iterdir())))
        store(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    replace_durably(tmp_path / "draft", tmp_path / "file")
    assert stored == [(False, ["draft", "file"]), (True, ["file"])]
    assert (tmp_path / "file").read_text() == "new"


def test_an_error_names_the_file_that_cannot_be_written() -> None:
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_durably(Path("/dev/full"), b"text", 0o600)


def refusing(patch: pytest.MonkeyPatch, directory: Path, number: int) -> None:
    """Has the system store files, and fail so with the directory."""
    store = os.fsync

    def only_files(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), directory.stat()):
            raise OSError(number, os.strerror(number))
        store(descriptor)

    patch.setattr(os, "fsync", only_files)


def test_a_file_is_there_also_where_the_system_stores_no_directory_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "draft").write_text("new")
    refusing(monkeypatch, tmp_path, errno.EINVAL)
    replace_durably(tmp_path / "draft", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "new"


def test_nobody_is_told_of_a_file_whose_name_a_broken_disk_may_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "draft").write_text("new")
    refusing(monkeypatch, tmp_path, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        replace_durably(tmp_path / "draft", tmp_path / "file")


def test_path_through_a_file_or_a_loop_of_links_leads_nowhere(tmp_path: Path) -> None:
    file, loop, link = (tmp_path / name for name in ("file", "loop", "link"))
    file.touch()
    loop.symlink_to(loop)
    link.symlink_to(file)
    assert exists(file)
    assert not exists(tmp_path / "other")
    assert not exists(file / "below")
    assert resolved(link) == file
    assert resolved(loop / "below") == loop / "below"
