"""What is built of the tree installs and serves by itself, without a checkout."""

import ssl
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from operating import COMMAND, TIMEOUT_SECONDS, Installation

ROOT = Path(__file__).parents[2]
BUILD = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"


def wheel(project: Path, directory: Path) -> Path:
    """The wheel of a project, as its build backend makes it."""
    directory.mkdir()
    subprocess.run([sys.executable, "-c", BUILD, directory], cwd=project, check=True)
    return next(directory.glob("*.whl"))


def files(package: Path) -> set[str]:
    """What a package of the tree consists of."""
    every = (path for path in package.rglob("*") if path.is_file())
    return {
        str(path.relative_to(package.parent)) for path in every if "__pycache__" not in path.parts
    }


def test_server_serves_from_its_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = wheel(ROOT, tmp_path / "wheel")
    place = tmp_path / "site"
    with zipfile.ZipFile(built) as packed:
        packed.extractall(place)
    assert files(ROOT / "src" / "portico") <= files(place / "portico")
    # What the wheel needs is there already; before the checkout comes what was installed.
    monkeypatch.setenv("PYTHONPATH", str(place))
    asked = [sys.executable, "-c", "import portico; print(portico.__file__)"]
    found = subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert found.stdout.startswith(str(place))
    installation = Installation(tmp_path)
    with installation.serving(program=(*COMMAND, "serve")):
        trusting = ssl.create_default_context(cafile=installation.data / "tls" / "ca.pem")
        origin = f"https://localhost:{installation.port}"
        with httpx.Client(base_url=origin, verify=trusting, timeout=TIMEOUT_SECONDS) as one:
            page = one.get("/", headers={"accept": "text/html"}, follow_redirects=True)
            assert page.status_code == 200
            assert "Sign in" in page.text
            assert one.get("/favicon.ico").status_code == 200


def test_client_wheel_holds_all_of_it(tmp_path: Path) -> None:
    project = ROOT / "clients" / "python"
    with zipfile.ZipFile(wheel(project, tmp_path / "wheel")) as built:
        assert files(project / "src" / "portico_client") <= set(built.namelist())
