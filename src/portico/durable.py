"""Files that are there for good: also where the machine loses its power a moment later."""

import errno
import os
from pathlib import Path

_CANNOT = {errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
"""Of a directory that may not be read, or of a system that stores none by itself."""


def put_in_place(file: Path, place: Path) -> None:
    """Gives a file that is written another name in the same file system, in the place of one that
    has it. Whoever is told so afterwards finds it there, and whole. Raises `OSError` where that is
    not sure."""
    _store(file)
    file.replace(place)
    store_names(place.parent)


def store_names(directory: Path) -> None:
    """Sees that its files are there by the names that they have, where the system can. Raises
    `OSError` where that fails."""
    try:
        _store(directory)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


def _store(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
