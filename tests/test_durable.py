"""What is told as written is there for good."""

import os
from pathlib import Path

import pytest

from portico.durable import put_in_place


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
    put_in_place(tmp_path / "draft", tmp_path / "file")
    assert stored == [(False, ["draft", "file"]), (True, ["file"])]
    assert (tmp_path / "file").read_text() == "new"
