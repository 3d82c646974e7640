"""`script/setup` makes what is needed where what is there is of another Python or another place."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pip
import pytest

from documents import ROOT

KNOWN = ("requirements/server.txt", "pyproject.toml", "clients/python/pyproject.toml")


def checkout(place: Path) -> None:
    """What `script/setup` reads of a checkout."""
    for name in (*KNOWN, "script/setup"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / name)


PYTHON = """#!/bin/sh
case "$*" in
"-m venv --clear .venv")
    {python} -m venv --clear --without-pip .venv || exit
    echo "#!$PWD/.venv/bin/python" > .venv/bin/pip ;;
*) exec {python} "$@" ;;
esac
"""
"""A Python whose environments have no pip of their own, which takes four seconds to install."""


@pytest.fixture(autouse=True)
def _python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python that `script/setup` uses, and the tests' own pip for its environments."""
    python, site = tmp_path / "python", tmp_path / "site"
    python.write_text(PYTHON.format(python=sys.executable))
    python.chmod(0o700)
    site.mkdir()
    (site / "pip").symlink_to(Path(pip.__file__).parent)
    monkeypatch.setenv("PYTHON", str(python))
    monkeypatch.setenv("PYTHONPATH", str(site))


def environment(place: Path) -> Path:
    """An environment that is stamped as a current one; the file that says so."""
    made = place / ".venv"
    subprocess.run(
        [os.environ["PYTHON"], *("-m", "venv", "--clear", ".venv")], cwd=place, check=True
    )
    known = b"".join((place / name).read_bytes() for name in KNOWN)
    stamp = made / "portico-server"
    stamp.write_text(sha256(known).hexdigest() + "\n")
    return stamp


def setting_up(place: Path) -> subprocess.CompletedProcess[str]:
    """`script/setup`, which gets no further than to what it would install."""
    return subprocess.run(
        [place / "script" / "setup", "server"],
        env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def is_made_anew(place: Path) -> bool:
    """Whether it is, with a pip that runs there and finds nothing."""
    done = setting_up(place)
    assert "Installing what Portico needs" in done.stderr
    assert done.returncode != 0
    assert not (place / ".venv" / "portico-server").exists()
    assert "No matching distribution" in done.stderr, "pip is there"
    return f"{place}/.venv/bin/python" in (place / ".venv" / "bin" / "pip").read_text("utf-8")


def test_a_set_up_that_was_cut_off_is_made_up_for_by_the_release_before_too(
    tmp_path: Path,
) -> None:
    checkout(tmp_path)
    stamp = environment(tmp_path)
    assert setting_up(tmp_path).returncode == 0
    requirements = tmp_path / "requirements" / "server.txt"
    before = requirements.read_bytes()
    requirements.write_bytes(before + b"\n")
    assert setting_up(tmp_path).returncode != 0
    requirements.write_bytes(before)
    assert "Installing what Portico needs" in setting_up(tmp_path).stderr
    assert not stamp.exists()


def test_an_environment_of_a_python_that_was_replaced_is_made_anew(tmp_path: Path) -> None:
    checkout(tmp_path)
    python = environment(tmp_path).parent / "bin" / "python"
    python.unlink()
    python.symlink_to(tmp_path / "nowhere")
    assert is_made_anew(tmp_path)


def test_the_environment_of_a_checkout_that_was_moved_is_made_anew(tmp_path: Path) -> None:
    place = tmp_path / "a new place"
    before = Path(f"{tmp_path}/before{place}")  # which ends like the new one
    checkout(before)
    environment(before)
    assert setting_up(before).returncode == 0
    before.rename(place)
    assert is_made_anew(place)
