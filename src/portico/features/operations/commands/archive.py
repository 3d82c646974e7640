"""The format of a backup: a tar archive of a manifest and the files that it lists."""

import errno
import gzip
import hashlib
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from tqdm.utils import CallbackIOWrapper

from portico.cli.output import CommandError, progress
from portico.data.disk import sync_directory

MANIFEST = "manifest.json"
CHUNK = 2**20

# Archives of earlier releases hold all files of tls/, with names that the operator chose.
_NAMES = re.compile(
    r"(?:live|sandbox)\.db|database\.dump|secret\.key|tls/[^/\0]{1,251}\.(?:pem|key)"
)
_DATABASES: dict[str, frozenset[str]] = {
    "sqlite": frozenset({"live.db", "sandbox.db"}),
    "postgres": frozenset({"database.dump"}),
}
_GZIP = b"\x1f\x8b"
_UNREADABLE = (
    tarfile.TarError,
    zlib.error,
    gzip.BadGzipFile,
    EOFError,
    ValueError,  # bad numbers and names in headers, and a bad manifest
    OverflowError,
    RecursionError,  # nested headers
)


class Manifest(msgspec.Struct, frozen=True):
    """The contents of a backup. `files` are SHA-256 digests by name; `CHUNK` bounds their size."""

    portico: Annotated[str, msgspec.Meta(max_length=100)]
    engine: Literal["sqlite", "postgres"]
    created_at: Annotated[str, msgspec.Meta(pattern=r"^[0-9T:.-]{1,40}Z$")]
    files: dict[str, str]


def pack(manifest: Manifest, directory: Path, archive: Path) -> None:
    """Writes the manifest and its files, found in `directory`, to a new file that only its owner
    can read. Compresses it if its name ends in `.gz` or `.tgz`."""
    listed = directory / MANIFEST
    listed.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    descriptor = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        # Databases compress well at any level, and the lowest level is three times as fast.
        compressed = archive.suffix in (".gz", ".tgz")
        with (
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=1)
            if compressed
            else tarfile.open(fileobj=file, mode="w")
        ) as tar:
            names = (MANIFEST, *manifest.files)
            with progress("Packing", sum(_size(directory / name) for name in names), "B") as bar:
                for name in names:
                    _add(tar, directory / name, name, bar.update)


def unpack(archive: Path, directory: Path) -> Manifest:
    """Unpacks `archive` into the empty `directory` and returns its manifest.

    Raises `CommandError` unless it is a complete backup, and `OSError` if the disk has no room.
    """
    with archive.open("rb") as file:
        compressed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        try:
            with (
                tarfile.open(fileobj=file, mode="r:gz" if compressed else "r:") as tar,
                progress("Unpacking", _size(archive), "B") as bar,
            ):
                manifest = _unpack(tar, archive, directory, lambda: bar.update(file.tell() - bar.n))
                bar.update(bar.total - bar.n)  # the padding at the end is not read
                return manifest
        except _UNREADABLE as error:
            raise CommandError(f"{archive} is damaged, or not a backup of Portico.") from error


def digests(directory: Path) -> dict[str, str]:
    """The digests of all files below a directory, by their names."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    with progress("Hashing", sum(map(_size, files)), "B") as bar:
        return {str(path.relative_to(directory)): digest(path, bar.update) for path in files}


def digest(path: Path, read: Callable[[int], object]) -> str:
    """The SHA-256 of a file, in hexadecimal. Calls `read` with the bytes of each step."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            hashed.update(chunk)
            read(len(chunk))
    return hashed.hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size


def _add(tar: tarfile.TarFile, path: Path, name: str, added: Callable[[int], object]) -> None:
    """Adds a file to an archive. Calls `added` with the bytes of each step."""
    with path.open("rb") as file:
        tar.addfile(tar.gettarinfo(arcname=name, fileobj=file), CallbackIOWrapper(added, file))


def _unpack(
    tar: tarfile.TarFile, archive: Path, directory: Path, read: Callable[[], object]
) -> Manifest:
    """Unpacks the manifest, which comes first, then each file that it lists, once; rejects anything
    else. Calls `read` after each step."""
    first = tar.next()
    if first is None or first.name != MANIFEST or first.size > CHUNK:
        raise CommandError(
            f"{archive} is not a backup of Portico: it does not begin with {MANIFEST}."
        )
    manifest = _manifest(tar, first, archive)
    missing = set(manifest.files)
    while (member := tar.next()) is not None:
        if member.name not in missing:
            raise CommandError(
                f"{archive} is not a backup of Portico: it holds {member.name[:100]!r} twice, or"
                " its manifest does not list that."
            )
        missing.remove(member.name)
        if _extract(tar, member, directory / member.name, read) != manifest.files[member.name]:
            raise CommandError(f"{archive} is damaged: {member.name} has another checksum.")
    if missing:
        raise CommandError(f"{archive} is damaged: {min(missing)} is missing.")
    return manifest


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    """A file's bytes, up to `CHUNK` at a time."""
    file = tar.extractfile(member) if member.isreg() else None
    if file is None:
        raise tarfile.ReadError(f"{member.name} is no file")
    while chunk := file.read(CHUNK):
        yield chunk


def _manifest(tar: tarfile.TarFile, member: tarfile.TarInfo, archive: Path) -> Manifest:
    """The manifest. Raises `CommandError` unless it lists what a backup of its engine holds."""
    manifest = msgspec.json.decode(b"".join(_content(tar, member)), type=Manifest)
    names = set(manifest.files)
    for name in sorted(names):
        if not _NAMES.fullmatch(name):
            raise CommandError(f"{archive} is not a backup of Portico: it lists {name[:100]!r}.")
    wanted = _DATABASES[manifest.engine]
    if lacking := wanted - names:
        raise CommandError(f"{archive} is an incomplete backup: it does not list {min(lacking)}.")
    others = frozenset[str]().union(*_DATABASES.values()) - wanted
    if foreign := others & names:
        raise CommandError(
            f"{archive} is not a backup of Portico: {min(foreign)} does not belong to"
            f" {manifest.engine}."
        )
    return manifest


def _extract(
    tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, read: Callable[[], object]
) -> str:
    target.parent.mkdir(mode=0o700, exist_ok=True)
    # Check before writing: filling up the disk would disturb others.
    if member.size > shutil.disk_usage(target.parent).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    hashed = hashlib.sha256()
    mode = 0o644 if target.suffix == ".pem" else 0o600
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        for chunk in _content(tar, member):
            hashed.update(chunk)
            file.write(chunk)
            read()
        file.flush()
        os.fsync(file.fileno())
    sync_directory(target.parent)
    return hashed.hexdigest()
