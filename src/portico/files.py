"""Questions about files."""

import os
from pathlib import Path


def exists(path: Path) -> bool:
    """Whether there is something at `path`. Raises `OSError` if that cannot be known, such as
    without permission, where `Path.exists` is False since Python 3.14."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def resolved(path: Path) -> Path:
    """The absolute path without symbolic links. A loop of links stays in it, so that opening the
    file fails. `Path.resolve` raises `RuntimeError` for one before Python 3.13."""
    return Path(os.path.realpath(path))
