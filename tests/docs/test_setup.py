"""`script/setup` makes what is needed where an upgrade of the system has left nothing of it."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from documents import ROOT

KNOWN = ("requirements/server.txt", "pyproject.toml", "clients/python/pyproject.toml")


@pytest.mark.parametrize("left", ["an empty environment", "no interpreter"])
def test_an_environment_of_a_python_that_was_replaced_is_made_anew(
    tmp_path: Path, left: str
) -> None:
    for name in (*KNOWN, "script/setup"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    environment = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    if left == "no interpreter":
        (environment / "bin" / "python").unlink()
        (environment / "bin" / "python").symlink_to(tmp_path / "nowhere")
    known = b"".join((tmp_path / name).read_bytes() for name in KNOWN)
    stamp = environment / "portico-server"
    stamp.write_text(sha256(known).hexdigest() + "\n")
    done = subprocess.run(
        [tmp_path / "script" / "setup", "server"],
        env={**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1"},  # so it gets no further
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Installing what Portico needs" in done.stderr
    assert done.returncode != 0
    assert not stamp.exists()
    assert "No matching distribution" in done.stderr, "pip is there"
