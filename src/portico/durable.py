"""Files that are there for good: also where the machine loses its power a moment later."""

import os
from contextlib import suppress
from pathlib import Path


def put_in_place(file: Path, place: Path) -> None:
    """Gives a file that is written another name in the same file system, in the place of one that
    has it. Whoever is told so afterwards finds it there, and whole. Raises `OSError` where it has
    not got that name."""
    _store(file)
    file.replace(place)
    store_names(place.parent)


def store_names(directory: Path) -> None:
    """Sees that its files are there by the names that they have, where the system can."""
    with suppress(OSError):  # of one that may not be read, or where none is stored by itself
        _store(directory)


def _store(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
