"""Writes files durably: they survive a power failure a moment later."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CANNOT = {errno.EACCES, errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
"""The errors of a directory without read permission, and of file systems that cannot sync one."""


def write_durably(file: Path, content: bytes, mode: int) -> None:
    """Writes the content of a file, created with this mode, durably. Its name may still be lost:
    see `sync_directory`. Raises `OSError`."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with _naming(file), os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(descriptor)


def replace_durably(file: Path, place: Path) -> None:
    """Moves a complete file to another name in the same file system, replacing any file there.
    Once this returns, the file is stored durably under that name. Raises `OSError` otherwise."""
    _sync(file)
    file.replace(place)
    sync_directory(place.parent)


def sync_directory(directory: Path) -> None:
    """Stores a directory's file names durably, if the file system can. Raises `OSError` if that
    fails."""
    try:
        _sync(directory)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with _naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Puts a file's name into an error, as opening it does: the system names only a descriptor."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


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
