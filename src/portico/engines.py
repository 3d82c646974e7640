"""Builds the engines that the settings name: database, limiter and mail of an environment."""

from pathlib import Path

from portico.data.database import Database
from portico.data.sqlite.engine import SqliteDatabase
from portico.limits.memory import MemoryLimiter
from portico.limits.protocol import Limiter
from portico.outbound.mail import FileOutlet, Outlet
from portico.outbound.smtp import SmtpOutlet
from portico.settings import Settings

LIVE = "live"
SANDBOX = "sandbox"


def database(
    settings: Settings, environment: str, *, create: bool = False, schema: str | None = None
) -> Database:
    """The database of one environment, not opened yet. `create` says whether to create a missing
    SQLite file; `schema` replaces the usual schema of PostgreSQL. Raises `SettingError`."""
    if settings.database_url:
        from portico import shared_engines  # late: its drivers take 50 ms each to load

        named = schema or database_schema(environment)
        return shared_engines.database(settings, environment, settings.database_url, named)
    return SqliteDatabase(database_file(settings, environment), create=create)


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
    from portico import shared_engines  # late, as above

    return shared_engines.limiter(settings, environment, settings.valkey_url)


def outlet(settings: Settings) -> Outlet:
    """The outlet for mail: a mail server, or without one files in the data directory."""
    if settings.smtp_url and settings.mail_from:
        return SmtpOutlet(settings.smtp_url, settings.mail_from, settings.site_name)
    sender = settings.mail_from or "portico@localhost"
    return FileOutlet(settings.data / "log", sender, settings.site_name)
