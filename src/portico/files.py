"""Questions about files."""

from pathlib import Path


def exists(path: Path) -> bool:
    """Whether there is something at `path`. Raises `OSError` if that cannot be known, such as
    without permission, where `Path.exists` is False since Python 3.14."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
