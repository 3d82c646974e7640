"""The engines that hosts share, PostgreSQL and Valkey. This module is loaded only if the settings
name one, since each driver would cost every other start 50 ms. All raise `SettingError` for an
unusable URL."""

from collections.abc import Iterator
from contextlib import contextmanager

from portico.data.database import Database
from portico.data.postgres.engine import PostgresDatabase
from portico.data.postgres.positions import LAG_SECONDS, LIFE_SECONDS, Positions
from portico.limits.protocol import Limiter
from portico.limits.valkey import ValkeyLimiter
from portico.limits.valkey_positions import ValkeyPositions
from portico.settings import SettingError, Settings


def database(settings: Settings, environment: str, url: str, schema: str) -> Database:
    """The database of one environment."""
    return PostgresDatabase(
        url,
        schema,
        listen_url=settings.database_listen_url,
        read_url=settings.database_read_url,
        positions=_positions(settings, environment) if settings.database_read_url else None,
        prepared=settings.prepared_statements,
    )


def limiter(settings: Settings, environment: str, url: str) -> Limiter:
    """The rate counters of one environment."""
    with _usable():
        return ValkeyLimiter(url, environment, settings.key_prefix)


def _positions(settings: Settings, environment: str) -> Positions | None:
    """The store in which hosts share the positions of their callers' last writes; None without
    Valkey."""
    url, prefix = settings.valkey_url, settings.key_prefix
    if url is None:
        return None
    with _usable():
        return ValkeyPositions(url, environment, prefix, life=LIFE_SECONDS, lag=LAG_SECONDS)


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SettingError(f"valkey_url (PORTICO_VALKEY_URL): {error}") from None
