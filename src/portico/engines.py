"""Builds the engines that the settings name: database, limiter and mail of an environment.

The engines that hosts share, PostgreSQL and Valkey, are imported only if a setting names one: each
driver takes 50 ms to load.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from portico.data.database import Database
from portico.data.sqlite.engine import SqliteDatabase
from portico.limits.memory import MemoryLimiter
from portico.limits.protocol import Limiter
from portico.outbound.mail import FileOutlet, Outlet
from portico.outbound.smtp import SmtpOutlet
from portico.settings import SettingError, Settings

if TYPE_CHECKING:
    from portico.data.postgres.replicas import Positions

LIVE = "live"
SANDBOX = "sandbox"


def database(
    settings: Settings, environment: str, *, create: bool = False, schema: str | None = None
) -> Database:
    """The database of one environment, not opened yet. `create` says whether to create a missing
    SQLite file; `schema` replaces the usual schema of PostgreSQL. Raises `SettingError`."""
    if settings.database_url is None:
        return SqliteDatabase(database_file(settings, environment), create=create)
    from portico.data.postgres.engine import PostgresDatabase

    return PostgresDatabase(
        settings.database_url,
        schema or database_schema(environment),
        listen_url=settings.database_listen_url,
        read_url=settings.database_read_url,
        positions=_positions(settings, environment) if settings.database_read_url else None,
        prepared=settings.prepared_statements,
    )


def database_file(settings: Settings, environment: str) -> Path:
    """The SQLite file of one environment."""
    return settings.data / f"{environment}.db"


def database_schema(environment: str) -> str:
    """The PostgreSQL schema of one environment."""
    return f"portico_{environment}"


def limiter(settings: Settings, environment: str) -> Limiter:
    """The rate counters of one environment. Raises `SettingError`."""
    if settings.valkey_url is None:
        return MemoryLimiter()
    from portico.limits.valkey import ValkeyLimiter

    with _usable():
        return ValkeyLimiter(settings.valkey_url, environment, settings.key_prefix)


def _positions(settings: Settings, environment: str) -> "Positions | None":
    """The store in which hosts share the positions of their callers' last writes; None without
    Valkey."""
    if settings.valkey_url is None:
        return None
    from portico.data.postgres.replicas import LAG_SECONDS, LIFE_SECONDS
    from portico.limits.valkey import ValkeyPositions

    with _usable():
        return ValkeyPositions(
            settings.valkey_url, environment, settings.key_prefix, LIFE_SECONDS, LAG_SECONDS
        )


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SettingError(f"valkey_url (PORTICO_VALKEY_URL): {error}") from None


def outlet(settings: Settings) -> Outlet:
    """The outlet for mail: a mail server, or without one files in the data directory."""
    if settings.smtp_url and settings.mail_from:
        return SmtpOutlet(settings.smtp_url, settings.mail_from, settings.site_name)
    sender = settings.mail_from or "portico@localhost"
    return FileOutlet(settings.data / "log", sender, settings.site_name)
