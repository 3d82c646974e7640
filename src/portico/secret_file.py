"""The installation's secret, which encrypts the private signing keys in the database.

It is given by a setting, so that all hosts of a database have the same one, or created in the data
directory. It is never in the database, so that a copy of the database alone cannot sign anything.
While it is being replaced there are several: the first one encrypts, and each decrypts what it has
encrypted.
"""

import os
from pathlib import Path

from portico.core.secrets import Random
from portico.data.disk import exists, sync_directory, write_durably
from portico.settings import Settings
from portico.settings.values import secret_keys

NAME = "secret.key"
_SHORTEST = 32

Secrets = tuple[bytes, ...]
"""The current secret, followed by those that it replaces."""


class SecretError(Exception):
    """The secret cannot be used. The message is one line for the operator, without the secret."""


def installation_secrets(settings: Settings, random: Random) -> Secrets:
    """The secrets of the settings, else those of the data directory, where one is created if there
    is none. Raises `SecretError`."""
    found = found_secrets(settings)
    if found is not None:
        return found
    file = settings.data / NAME
    try:
        _make(file, random(32).hex())
    except OSError as error:
        raise _unusable(file, error) from error
    return read_secrets(file)


def found_secrets(settings: Settings) -> Secrets | None:
    """As `installation_secrets`, but None if one would be created. Raises `SecretError`."""
    if settings.secret_key is not None:
        return tuple(key.encode() for key in settings.secret_key)
    if settings.secret_key_file is not None:
        held = b"\n".join(read_secrets(settings.secret_key_file))
        return tuple(key.encode() for key in secret_keys(held.decode()))
    file = settings.data / NAME
    return read_secrets(file) if exists(file) else None


def is_given(settings: Settings) -> bool:
    """Whether a setting gives the secret."""
    return settings.secret_key is not None or settings.secret_key_file is not None


def has_secret_file(settings: Settings) -> bool:
    """Whether the data directory has the secret, and no setting gives one."""
    return exists(settings.data / NAME) and not is_given(settings)


def read_secrets(file: Path) -> Secrets:
    """The secrets in a file, one per line. Raises `SecretError`."""
    try:
        secrets = tuple(file.read_bytes().split())
    except OSError as error:
        raise _unusable(file, error) from error
    if not secrets or any(len(secret) < _SHORTEST for secret in secrets):
        raise SecretError(f"{file} is damaged: restore it from a copy, or remove it.")
    return secrets


def _unusable(file: Path, error: OSError) -> SecretError:
    return SecretError(f"{file} cannot be used: {error.strerror}.")


def _make(file: Path, secret: str) -> None:
    """Writes the file completely or not at all, unless it exists. Several processes may do so."""
    draft = file.with_name(f".{NAME}-{os.getpid()}")
    try:
        write_durably(draft, f"{secret}\n".encode(), 0o600)
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(file.parent)  # before anything is encrypted with it
