"""Connections to the primary among the hosts of a `postgresql://` address, or to a pooler.

A pooler such as PgBouncer may give each transaction another session of the server.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import asyncpg

from portico.core.networks import read_store_url
from portico.data.database import in_time

CONNECT_SECONDS = 3.0
RETRY_SECONDS = 0.25
"""How long until a host that refused is asked again, while another host is silent."""

OTHERS_SECONDS = 0.5
"""If this process has not seen a primary yet: how long to wait for other hosts, which may have
replaced the primary that was found."""

CUT_OFF = "unexpected connection_lost() call"
"""The driver's message if a connection ends while it is being opened."""

# A promotion begins a new timeline, which distinguishes a former primary from its successor.
_ROLE = """
SELECT CASE WHEN pg_is_in_recovery() THEN 0
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
    current_setting('search_path')"""


_DATABASE = "SELECT oid FROM pg_database WHERE datname = current_database()"
_SERVER = "SELECT system_identifier FROM pg_control_system()"


def each_host(url: str) -> list[str]:
    """One address for each host of an address, in which commas separate the hosts."""
    given = read_store_url(url)
    return [given.naming(host) for host in given.hosts]


async def identity(connection: Any) -> list[Any]:
    """Identifies a database on its server and, if this account may read that, the server."""
    known = [await connection.fetchval(_DATABASE)]
    with suppress(asyncpg.InsufficientPrivilegeError):
        known.append(await connection.fetchval(_SERVER))
    return known


def is_same(one: list[Any], other: list[Any]) -> bool:
    """Whether two identities may be of one database, comparing what both accounts may read."""
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


def reason(error: Exception) -> str:
    """Why a connection fails, in a few words: if a name has several addresses, the error's own text
    lists a reason for each."""
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:.0f} seconds"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, ConnectionResetError) or str(error) == CUT_OFF:
        return "the server there closed the connection"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, ValueError):  # whose text may quote a part of the address
        return "its address is invalid"
    return str(error).partition("\n")[0].rstrip(".")


class NotPrimary(OSError):
    """A server answers but does not take writes."""


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Whether to log a record of the event loop. When an attempt to connect is cancelled, the
    driver leaves a future with an error that is never retrieved, which means nothing."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, ConnectionError) and str(error) == CUT_OFF)


logging.getLogger("asyncio").addFilter(_is_worth_logging)


class _Server(NamedTuple):
    """The server of a connection: its address and its timeline, which is 0 for a standby."""

    url: str
    timeline: int


class Hosts:
    """The servers of an address: one, or a primary and its standbys in any order."""

    def __init__(self, url: str, settings: Mapping[str, str], options: Mapping[str, Any]) -> None:
        """`url` is a `postgresql://` address with commas between its hosts. `settings` are those of
        every session and include `search_path`; `options` are passed to asyncpg."""
        self._urls = each_host(url)
        self._settings = dict(settings)
        self._options = dict(options)
        self._timeline = 0
        self.keeps_sessions = True
        """Whether a connection keeps its session, and with it `settings`. False with a pooler that
        gives each transaction another session."""
        self._connected: WeakKeyDictionary[Any, _Server] = WeakKeyDictionary()

    async def connect(self, _dsn: object = None, **options: Any) -> Any:
        """Opens a connection to the only host, or to the one of several that is not in recovery:
        all are asked at the same time, and again while one is silent, for `CONNECT_SECONDS`.
        `options` are those of an asyncpg pool. Raises asyncpg's errors, and `NotPrimary`."""
        url = self._urls[0]
        async with in_time(CONNECT_SECONDS):
            if len(self._urls) > 1:
                url, timeline, connection = await self._primary(options)
                while timeline < self._timeline:  # another task has found its successor meanwhile
                    connection.terminate()
                    url, timeline, connection = await self._primary(options)
            else:
                timeline, connection = await self._ask(url, options)
        self._connected[connection] = _Server(url, timeline)
        if timeline and timeline != self._timeline:
            # A former primary may show data that its successor does not have.
            self._timeline = timeline
            self._terminate(lambda one: 0 < one.timeline != timeline)
        return connection

    def timeline(self, connection: Any) -> int:
        """The timeline of a connection's server, which ends with a promotion; 0 for a standby."""
        return self._connected[connection].timeline

    def disconnect(self, but: Any = None) -> None:
        """Ends all connections except those to the server of `but`. Callers that wait for an answer
        on them get an error at once."""
        place = self._connected[but].url if but in self._connected else None
        self._terminate(lambda one: one.url != place)

    def _terminate(self, is_left: Callable[["_Server"], bool]) -> None:
        for connection, server in list(self._connected.items()):
            if is_left(server):
                connection.terminate()

    async def _primary(self, options: dict[str, Any]) -> tuple[str, int, Any]:
        silent = set(self._urls)
        tasks = {
            asyncio.create_task(self._until_primary(url, silent, options)): url
            for url in self._urls
        }
        chosen = None
        try:
            left = set(tasks)
            while left and not _found(tasks):
                _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            if left and not self._timeline:
                await asyncio.wait(left, timeout=OTHERS_SECONDS)
            if not (found := _found(tasks)):
                errors = [error for task in tasks if (error := task.exception())]
                raise min(errors, key=_rank)
            chosen = max(found, key=lambda task: task.result()[0])
            return tasks[chosen], *chosen.result()
        finally:
            for task in tasks:
                task.cancel()
            for task in _found(tasks):
                if task is not chosen:
                    task.result()[1].terminate()

    async def _until_primary(
        self, url: str, silent: set[str], options: dict[str, Any]
    ) -> tuple[int, Any]:
        """Asks a host until it is the primary. Raises its error once no host is silent."""
        while True:
            try:
                found = await self._ask_primary(url, options)
            except Exception:
                silent.discard(url)
                if not silent:
                    raise
            else:
                silent.discard(url)
                return found
            await asyncio.sleep(RETRY_SECONDS)

    async def _ask_primary(self, url: str, options: dict[str, Any]) -> tuple[int, Any]:
        """As `_ask`. Raises `NotPrimary` if the host is not the current primary."""
        timeline, connection = await self._ask(url, options)
        if not timeline or timeline < self._timeline:
            connection.terminate()
            raise NotPrimary("another has replaced it" if timeline else "no host accepts writes")
        return timeline, connection

    async def _ask(self, url: str, options: dict[str, Any]) -> tuple[int, Any]:
        """A server's timeline (0 for a standby) and a connection to it. Also checks whether the
        connection has the settings of the session."""
        connection = await self._open(url, options)
        try:
            async with connection.transaction():  # a pooler may split a statement outside of one
                timeline, path = await connection.fetchrow(_ROLE)
        except BaseException:
            connection.terminate()
            raise
        if path != self._settings["search_path"]:
            self.keeps_sessions = False
        return timeline, connection

    async def _open(self, url: str, options: dict[str, Any]) -> Any:
        given = {**self._options, **options}
        if self.keeps_sessions:
            try:
                return await asyncpg.connect(url, server_settings=self._settings, **given)
            except asyncpg.ProtocolViolationError:  # PgBouncer accepts only a few settings
                self.keeps_sessions = False
        return await asyncpg.connect(url, **given)


def _rank(error: BaseException) -> int:
    """Sorts errors of several hosts, the most informative first: a host that has no room for a
    connection may be the primary."""
    kinds = (asyncpg.TooManyConnectionsError, NotPrimary)
    return next((rank for rank, kind in enumerate(kinds) if isinstance(error, kind)), len(kinds))


_Task = asyncio.Task[tuple[int, Any]]


def _found(tasks: dict[_Task, str]) -> list[_Task]:
    """The tasks that have found a primary."""
    return [task for task in tasks if task.done() and not task.cancelled() and not task.exception()]
