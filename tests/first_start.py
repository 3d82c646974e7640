"""Databases as a first start creates them, made once and copied for every test."""

import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from portico.app import Portico
from portico.core.times import Clock
from portico.engines import database_file
from portico.secret_file import NAME as SECRET_FILE
from portico.settings import Settings

_databases: dict[str, bytes] = {}


async def prepare(settings: Settings, clock: Clock) -> None:
    """Copies databases without users into a data directory that has none, since creating signing
    keys takes a fifth of a second. All directories have the same secret, which decrypts them."""
    if not _databases:
        with TemporaryDirectory() as directory:
            shutil.copy(settings.data / SECRET_FILE, directory)
            first = replace(settings, data=Path(directory), valkey_url=None, kinds=None)
            portico = Portico(first, clock=clock, create=True)
            await portico.open()
            await portico.close()
            for environment in portico.environments:
                file = database_file(first, environment.name)
                _databases[file.name] = file.read_bytes()
    for name, content in _databases.items():
        file = settings.data / name
        if not file.exists():
            file.write_bytes(content)
