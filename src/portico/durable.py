"""Files that are there for good: also where the machine loses its power a moment later."""

import os
from pathlib import Path


def put_in_place(file: Path, place: Path) -> None:
    """Gives a file that is written another name in the same file system, in the place of one that
    has it. Whoever is told so afterwards finds it there, and whole. Raises `OSError`."""
    _store(file)
    file.replace(place)
    _store(place.parent)


def _store(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
