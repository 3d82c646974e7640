"""The installation's secret: what encrypts the private signing keys in the database.

It is kept beside the certificates and not in the database, so that a copy of that alone signs
nothing. Where it is lost, new signing keys are made, and what the old ones signed stays valid.
"""

import os
from pathlib import Path

from portico.domain.secrets import Random, mint

NAME = "secret.key"
_SHORTEST = 32


class SecretError(Exception):
    """The secret cannot be used: one line for the operator, without the secret."""


def installation_secret(data: Path, random: Random) -> bytes:
    """The secret in the data directory, made where there is none. Raises `SecretError`."""
    file = data / NAME
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(file, mint("", random(32)))
        secret = file.read_bytes().strip()
    except OSError as error:
        raise SecretError(f"{file} cannot be used: {error.strerror}.") from error
    if len(secret) < _SHORTEST:
        raise SecretError(f"{file} is damaged: restore it from a copy, or remove it.")
    return secret


def _make(file: Path, secret: str) -> None:
    """Writes the file whole or not at all, where there is none; several processes may do so."""
    if file.exists():
        return
    draft = file.with_name(f".{NAME}-{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as draft_file:
        draft_file.write(f"{secret}\n")
        draft_file.flush()
        os.fsync(draft_file.fileno())
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
