"""The file that a backup is: a tar archive of a manifest and what it lists."""

import hashlib
import os
import re
import tarfile
import zlib
from pathlib import Path

import msgspec

from portico.cli.output import CommandError

MANIFEST = "manifest.json"
CHUNK = 2**20

_NAMES = re.compile(r"(?:live|sandbox)\.db|database\.dump|secret\.key|tls/[a-z]+\.(?:pem|key)")


class Manifest(msgspec.Struct, frozen=True):
    """What a backup is of. `files` are SHA-256 digests by name."""

    portico: str
    engine: str
    created_at: str
    files: dict[str, str]


def pack(manifest: Manifest, directory: Path, archive: Path) -> None:
    """Writes the manifest's files, found in `directory`, to a new file that its owner alone can
    read: compressed where its name ends in `.gz` or `.tgz`."""
    listed = directory / MANIFEST
    listed.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    descriptor = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        # Databases compress well at any level, and the lowest is three times as fast.
        compressed = archive.suffix in (".gz", ".tgz")
        with (
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=1)
            if compressed
            else tarfile.open(fileobj=file, mode="w")
        ) as tar:
            for name in (MANIFEST, *manifest.files):
                tar.add(directory / name, arcname=name)
        file.flush()
        os.fsync(file.fileno())


def unpack(archive: Path, directory: Path) -> Manifest:
    """Writes what `archive` holds into the empty `directory`, and returns its manifest.

    Raises `CommandError` unless it is a whole backup.
    """
    try:
        with tarfile.open(archive) as tar:
            manifest = _manifest(tar)
            for name, digest in manifest.files.items():
                if not _NAMES.fullmatch(name):
                    raise CommandError(f"{archive} is not a backup of Portico: it lists {name!r}.")
                if _extract(tar, name, directory / name) != digest:
                    raise CommandError(f"{archive} is damaged: {name} is not as it was.")
    except (tarfile.TarError, zlib.error, EOFError, KeyError, msgspec.DecodeError) as error:
        raise CommandError(f"{archive} is damaged, or not a backup of Portico.") from error
    return manifest


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(tar: tarfile.TarFile) -> Manifest:
    file = tar.extractfile(MANIFEST)
    if file is None:
        raise KeyError(MANIFEST)
    return msgspec.json.decode(file.read(CHUNK), type=Manifest)


def _extract(tar: tarfile.TarFile, name: str, target: Path) -> str:
    source = tar.extractfile(name)
    if source is None:
        raise KeyError(name)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    hashed = hashlib.sha256()
    mode = 0o644 if target.suffix == ".pem" else 0o600
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        while chunk := source.read(CHUNK):
            hashed.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return hashed.hexdigest()
