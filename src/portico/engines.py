"""Which engines the settings mean, and where they keep what."""

from pathlib import Path
from typing import TYPE_CHECKING

from portico.mail.files import FileOutlet
from portico.mail.protocol import Outlet
from portico.mail.smtp import SmtpOutlet
from portico.settings import Settings
from portico.state.memory import MemoryLimiter
from portico.state.protocol import Limiter
from portico.storage.database import Database
from portico.storage.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from portico.shared_engines import SharedEngines

LIVE = "live"
SANDBOX = "sandbox"


def database(
    settings: Settings, environment: str, *, makes: bool = False, schema: str | None = None
) -> Database:
    """The database of one environment; it `makes` SQLite's file where there is none. `schema` is
    where PostgreSQL has it, in the place of the usual one."""
    if settings.database_url:
        engines = _shared()(settings, environment)
        return engines.database(settings.database_url, schema or database_schema(environment))
    return SqliteDatabase(database_file(settings, environment), makes=makes)


def database_file(settings: Settings, environment: str) -> Path:
    """Where SQLite keeps one environment."""
    return settings.data / f"{environment}.db"


def database_schema(environment: str) -> str:
    """Where PostgreSQL keeps one environment."""
    return f"portico_{environment}"


def limiter(settings: Settings, environment: str) -> Limiter:
    """What counts the requests of one environment. Raises `SettingError`."""
    if settings.valkey_url is None:
        return MemoryLimiter()
    return _shared()(settings, environment).limiter(settings.valkey_url)


def _shared() -> "type[SharedEngines]":
    from portico.shared_engines import SharedEngines

    return SharedEngines


def outlet(settings: Settings) -> Outlet:
    """Where mail goes."""
    if settings.smtp_url and settings.mail_from:
        return SmtpOutlet(settings.smtp_url, settings.mail_from)
    return FileOutlet(settings.data / "log", settings.mail_from or "portico@localhost")
