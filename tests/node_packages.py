"""Packages for Node with which tests run programs."""

import hashlib
from pathlib import Path


def node_packages(place: Path) -> Path:
    """The packages of the lock at `place`. Fails unless `script/dependencies` installed these."""
    missing = "run script/dependencies: it says how to get Node, and installs the packages"
    packages = place / "node_modules"
    installed = packages / ".portico"
    wanted = hashlib.sha256((place / "package-lock.json").read_bytes()).hexdigest()
    assert installed.is_file(), missing
    assert installed.read_text().startswith(wanted), missing
    return packages
