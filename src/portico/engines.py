"""Which engines the settings mean, and where they keep what."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from portico.mail.files import FileOutlet
from portico.mail.protocol import Outlet
from portico.mail.smtp import SmtpOutlet
from portico.settings import SettingError, Settings
from portico.state.memory import MemoryLimiter
from portico.state.protocol import Limiter
from portico.storage.database import Database
from portico.storage.positions import LAG_SECONDS, LIFE_SECONDS, Positions
from portico.storage.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from portico.state.valkey import ValkeyLimiter
    from portico.state.valkey_positions import ValkeyPositions

LIVE = "live"
SANDBOX = "sandbox"


def database(settings: Settings, environment: str) -> Database:
    """The database of one environment."""
    if settings.database_url:
        # Not above, like the Valkey client below: a driver costs every start 50 ms.
        from portico.storage.postgres import PostgresDatabase

        return PostgresDatabase(
            settings.database_url,
            database_schema(environment),
            listen_url=settings.database_listen_url,
            read_url=settings.database_read_url,
            positions=_positions(settings, environment) if settings.database_read_url else None,
            prepared=settings.prepared_statements,
        )
    return SqliteDatabase(database_file(settings, environment))


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
    with _usable():
        return _in_valkey()[0](settings.valkey_url, environment, settings.key_prefix)


def _positions(settings: Settings, environment: str) -> Positions | None:
    """Where hosts tell each other of the last writes of their callers; None: there is no other."""
    if settings.valkey_url is None:
        return None
    with _usable():
        positions = _in_valkey()[1]
        prefix, url = settings.key_prefix, settings.valkey_url
        return positions(url, environment, prefix, life=LIFE_SECONDS, lag=LAG_SECONDS)


def _in_valkey() -> "tuple[type[ValkeyLimiter], type[ValkeyPositions]]":
    """What hosts share there."""
    from portico.state import valkey, valkey_positions

    return valkey.ValkeyLimiter, valkey_positions.ValkeyPositions


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SettingError(f"valkey_url (PORTICO_VALKEY_URL): {error}") from None


def outlet(settings: Settings) -> Outlet:
    """Where mail goes."""
    if settings.smtp_url and settings.mail_from:
        return SmtpOutlet(settings.smtp_url, settings.mail_from)
    return FileOutlet(settings.data / "log", settings.mail_from or "portico@localhost")
