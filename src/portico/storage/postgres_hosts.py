"""Connections to the primary among the hosts of a `postgresql://` address, or to a pooler."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import asyncpg

from portico.domain.store_urls import read_store_url

CONNECT_SECONDS = 3.0
AGAIN_SECONDS = 0.25
"""After how long a host that refused is asked again, while another keeps silent."""

OTHERS_SECONDS = 0.5
"""How long others may take to say that they have succeeded a primary, where this process has not
yet met one."""

CUT_OFF = "unexpected connection_lost() call"
"""What the driver says where a connection ends that is being made."""

# A promotion begins a timeline: so a former primary is told from its successor.
_ROLE = """
SELECT CASE WHEN pg_is_in_recovery() THEN 0
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
    current_setting('search_path')"""


_DATABASE = "SELECT oid FROM pg_database WHERE datname = current_database()"
_SERVER = "SELECT system_identifier FROM pg_control_system()"


def each_host(url: str) -> list[str]:
    """The addresses of the hosts that stand in one, with commas between them."""
    given = read_store_url(url)
    return [given.naming(host) for host in given.hosts]


async def identity(connection: Any) -> list[Any]:
    """What tells a database from all others, of its server and, as far as this account may know
    that, of other servers."""
    known = [await connection.fetchval(_DATABASE)]
    with suppress(asyncpg.InsufficientPrivilegeError):
        known.append(await connection.fetchval(_SERVER))
    return known


def is_same(one: list[Any], other: list[Any]) -> bool:
    """Whether two identities may be of one database, as far as the accounts know both."""
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


def reason(error: Exception) -> str:
    """Why a connection fails, in a few words: several addresses fail with one text for all."""
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:.0f} seconds"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, ConnectionResetError) or str(error) == CUT_OFF:
        return "whatever listens there ends the connection"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, ValueError):  # whose text may quote a part of the address
        return "its address cannot be understood"
    return str(error).partition("\n")[0].rstrip(".")


class NotPrimary(OSError):
    """A server answers, and is not the one that takes writes."""


def _is_news(record: logging.LogRecord) -> bool:
    """Whether the event loop tells of more than what the driver leaves behind where an attempt to
    connect is cut off: a future that nobody waits for, of a connection that nobody wants."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, ConnectionError) and str(error) == CUT_OFF)


logging.getLogger("asyncio").addFilter(_is_news)


class _Server(NamedTuple):
    """Where a connection leads, and the timeline of the primary there, 0 of a standby."""

    url: str
    timeline: int


class Hosts:
    """The servers of an address: one, or a primary and its standbys in any order."""

    def __init__(self, url: str, settings: Mapping[str, str], options: Mapping[str, Any]) -> None:
        """`url` is a `postgresql://` address with commas between its hosts. `settings` are those of
        every session, its `search_path` among them; `options` those of asyncpg."""
        self._urls = each_host(url)
        self._settings = dict(settings)
        self._options = dict(options)
        self._timeline = 0
        self.keeps_sessions = True
        """Whether a connection has `settings` for as long as it lasts. Before a pooler that gives
        it another session of the server for each transaction, they hold for none."""
        self._connected: WeakKeyDictionary[Any, _Server] = WeakKeyDictionary()

    async def connect(self, _dsn: object = None, **options: Any) -> Any:
        """A connection to the only host, or to the one of several that is not in recovery: all are
        asked at once, and again while one keeps silent, for `CONNECT_SECONDS`. `options` are those
        of a pool of asyncpg's. Raises what asyncpg does, and `NotPrimary`."""
        url = self._urls[0]
        async with asyncio.timeout(CONNECT_SECONDS):
            if len(self._urls) > 1:
                url, timeline, connection = await self._primary(options)
                while timeline < self._timeline:  # others have met its successor meanwhile
                    connection.terminate()
                    url, timeline, connection = await self._primary(options)
            else:
                timeline, connection = await self._ask(url, options)
        self._connected[connection] = _Server(url, timeline)
        if timeline and timeline != self._timeline:
            # What a former primary still shows is no part of what its successor does.
            self._timeline = timeline
            self._end(lambda one: 0 < one.timeline != timeline)
        return connection

    def timeline(self, connection: Any) -> int:
        """That of the server of a connection, which a promotion ends; 0 of a standby."""
        return self._connected[connection].timeline

    def leave(self, but: Any = None) -> None:
        """Ends all connections except those to the server of `but`: whoever waits for an answer
        there gets an error at once."""
        place = self._connected[but].url if but in self._connected else None
        self._end(lambda one: one.url != place)

    def _end(self, is_left: Callable[["_Server"], bool]) -> None:
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
        """Asks a host until it is the primary. Raises why it is not, once no host is silent."""
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
            await asyncio.sleep(AGAIN_SECONDS)

    async def _ask_primary(self, url: str, options: dict[str, Any]) -> tuple[int, Any]:
        """As `_ask`. Raises `NotPrimary` of any other."""
        timeline, connection = await self._ask(url, options)
        if not timeline or timeline < self._timeline:
            connection.terminate()
            raise NotPrimary("it was succeeded" if timeline else "no host takes writes")
        return timeline, connection

    async def _ask(self, url: str, options: dict[str, Any]) -> tuple[int, Any]:
        """A server's timeline, 0 of a standby, and a connection to it; sees whether this has the
        session's settings."""
        connection = await self._open(url, options)
        try:
            async with connection.transaction():  # else a pooler may split one statement in two
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
            except asyncpg.ProtocolViolationError:  # PgBouncer knows but a few settings
                self.keeps_sessions = False
        return await asyncpg.connect(url, **given)


def _rank(error: BaseException) -> int:
    """Which of several hosts' errors tells most comes first: whoever has no place for a connection
    may be the primary."""
    kinds = (asyncpg.TooManyConnectionsError, NotPrimary)
    return next((rank for rank, kind in enumerate(kinds) if isinstance(error, kind)), len(kinds))


_Task = asyncio.Task[tuple[int, Any]]


def _found(tasks: dict[_Task, str]) -> list[_Task]:
    """Those of them that have found a primary."""
    return [task for task in tasks if task.done() and not task.cancelled() and not task.exception()]
