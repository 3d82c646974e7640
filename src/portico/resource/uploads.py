"""Uploaded files of records: taken in, checked, stored once their sender says so, discarded."""

import asyncio
import os
from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Literal

import msgspec

from portico.change import Change
from portico.core.audit import Actor, Author
from portico.core.caller import Principal
from portico.core.errors import (
    Conflict,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    PorticoError,
    Unavailable,
)
from portico.core.scopes import of_role
from portico.core.times import DAY, MINUTE, SECOND
from portico.core.users import User
from portico.data.database import (
    Contended,
    Database,
    Rank,
    Signal,
    Transaction,
    acting_for,
)
from portico.data.disk import exists
from portico.data.queue import Queue
from portico.data.table import LOADED_BOOLEAN, Table, json_form
from portico.environment import Environment
from portico.resource.compiled import Compiled
from portico.resource.file_rows import (
    FileRow,
    ImportOutcome,
    Rejected,
    RowFault,
    form_of,
    read_rows,
)
from portico.resource.files import columns_of
from portico.resource.imports import SMALL, check_in_batches, store_in_batches

State = Literal["checking", "checked", "storing", "stored", "failed"]
WAITING: Collection[State] = ("checking", "checked", "storing")
"""The states in which the file is still needed."""

MAX_BYTES = 100 * 1024 * 1024
MAX_WAITING = 3
"""The most files of one account that are not stored yet."""

NO_COUNTS = {"line": 0, "done": 0, "inserted": 0, "updated": 0, "unchanged": 0, "faulty": 0}
"""The counting fields of an `Upload`, before anything is counted."""

KEPT = DAY
SILENT = 15 * SECOND
"""How long a worker may be silent before another process takes over its file."""
LOST = MINUTE
"""How long no worker may have been seen before a file counts as lost with its host."""

MAX_TOLD = 1_000
MAX_FAULTS = 10
"""The most faulty rows listed for a file, and faults for a row: the others are only counted."""


class Upload(msgspec.Struct, frozen=True):
    """An uploaded file of records of a `kind`, and its progress. Times are epoch milliseconds.

    The file is named `token`, in the data directory of the host that received it; only a process
    that finds it there checks and stores it. `account_id` is an account in live, `actor` belongs to
    this environment. The counts are first those of the check, then those of storing; `line` and
    `done` say up to which line and byte.
    """

    id: int
    token: str
    kind: str
    account_id: int
    actor: Actor
    name: str
    updates: bool
    size: int
    state: State
    created_at: int
    """When it was uploaded, or storing it was requested: it is kept for a day from then on."""
    seen_at: int = 0
    """When a process last reported to be working on it."""
    line: int = 0
    done: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    faulty: int = 0
    problem: str = ""
    """Why it failed as a whole."""

    @property
    def under_way(self) -> bool:
        """Whether a process works on it, or should."""
        return self.state in ("checking", "storing")


UPLOADS = Table(
    "uploads",
    Upload,
    forms={"actor": json_form(Actor), "updates": LOADED_BOOLEAN},
    fixed=("token", "kind", "account_id", "actor", "name", "updates", "size"),
)

_LATEST = f"""
SELECT {UPLOADS.columns} FROM uploads WHERE account_id = :account_id AND kind = :kind
ORDER BY CASE WHEN state IN ({", ".join(f"'{state}'" for state in WAITING)}) THEN 0 ELSE 1 END,
    id DESC
LIMIT :limit"""
_ALL = f"SELECT {UPLOADS.columns} FROM uploads ORDER BY id"
_UNDER_WAY = "state IN ('checking', 'storing')"
_OTHER = f"SELECT 1 FROM uploads WHERE {_UNDER_WAY} AND seen_at > :since AND id <> :id LIMIT 1"
_MOVE = f"{UPLOADS.update} AND state = :state_before AND line = :line_before RETURNING id"
_REPORT = "SELECT rejected FROM uploads WHERE id = :id"
_TELL = "UPDATE uploads SET rejected = :rejected WHERE id = :id"

_REJECTED = json_form(list[Rejected])


class Uploads:
    """The uploaded files of one environment."""

    rank = Rank.REST

    def __init__(self, db: Database) -> None:
        self._db = db
        self.queue = Queue(db, UPLOADS, due="seen_at", pending=_UNDER_WAY, channel="id = :id_{n}")
        """Each file is a channel. A claim ends `SILENT` after the time of `seen_at`."""
        self.signal = Signal()
        """Rings when a file waits to be checked or stored."""

    async def get(self, upload_id: int, tx: Transaction | None = None) -> Upload | None:
        """The file with this id, if any. With `tx` it is locked until the transaction ends."""
        return await UPLOADS.get(self._db, upload_id, tx)

    async def latest(self, account_id: int, kind: str, limit: int) -> list[Upload]:
        """The latest files of a kind from an account: waiting ones first, then newest first."""
        values = {"account_id": account_id, "kind": kind, "limit": limit}
        return UPLOADS.read_all(await self._db.all(_LATEST, values))

    async def all(self) -> list[Upload]:
        """Every file, oldest first. There are few, since each is removed after a day."""
        return UPLOADS.read_all(await self._db.all(_ALL))

    async def other_at_work(self, upload_id: int, since: int) -> bool:
        """Whether another file is being processed, with progress since then."""
        return await self._db.one(_OTHER, {"id": upload_id, "since": since}) is not None

    async def add(self, tx: Transaction, upload: Upload) -> Upload:
        """Stores a new file, ignoring its `id`; returns it with the assigned id."""
        return await UPLOADS.add(tx, upload)

    async def move(self, tx: Transaction, before: Upload, after: Upload) -> bool:
        """Stores a file's progress; False if it is no longer as in `before`, since another process
        has taken it over."""
        values = UPLOADS.values(after)
        known = {"state_before": before.state, "line_before": before.line}
        return await tx.one(_MOVE, {**values, **known}) is not None

    async def rejected(self, upload_id: int) -> list[Rejected]:
        """The rejected rows that are reported."""
        row = await self._db.one(_REPORT, {"id": upload_id})
        return msgspec.json.decode(row[0], type=list[Rejected]) if row else []

    async def report(self, tx: Transaction, upload_id: int, rejected: list[Rejected]) -> None:
        """Stores the rejected rows to report."""
        await tx.run(_TELL, {"id": upload_id, "rejected": _REJECTED.store(rejected)})

    async def delete(self, tx: Transaction, upload_id: int) -> None:
        """Deletes the row of a file."""
        await tx.run(UPLOADS.delete, {"id": upload_id})


def path_of(env: Environment, upload: Upload) -> Path:
    """Where a file is, on the host that it was sent to."""
    return env.uploads_directory / upload.token


async def is_behind(env: Environment, upload: Upload) -> bool:
    """Whether a file waits for another one: they are processed one at a time."""
    begun = not upload.under_way or upload.seen_at
    return not begun and await env[Uploads].other_at_work(upload.id, env.clock() - SILENT)


async def is_lost(env: Environment, upload: Upload) -> bool:
    """Whether a file that should be processed is not on this host and has not been processed for
    longer than `LOST`: its host was replaced, or is down."""
    silent = env.clock() - (upload.seen_at or upload.created_at) > LOST
    away = upload.under_way and silent and not exists(path_of(env, upload))
    return away and not await is_behind(env, upload)


async def take_in(
    env: Environment,
    account_id: int,
    kind: str,
    name: str,
    chunks: AsyncIterable[bytes],
    by: Author,
    *,
    updates: Callable[[], bool],
) -> Upload:
    """Receives a file of a kind's records, to be checked by the job. If it does not arrive
    completely, nothing is kept; `updates` is asked once it has. Raises `Conflict` for more than
    `MAX_WAITING` files, `PayloadTooLarge`, `Unavailable`, and what `chunks` raises."""
    own = [one for one in await env[Uploads].all() if one.account_id == account_id]
    waiting = [one for one in own if one.state in WAITING and not await is_lost(env, one)]
    if len(waiting) >= MAX_WAITING:
        raise _too_many()
    token = f"{account_id}-{env.random(16).hex()}"
    path = env.uploads_directory / token
    try:
        size = await _written(path, account_id, chunks)

        async def work(change: Change) -> Upload:
            actor, now = change.by.actor, change.now
            await change.check()
            change.noted_elsewhere()
            updating = updates()
            sent = Upload(0, token, kind, account_id, actor, name, updating, size, "checking", now)
            return await env[Uploads].add(change.tx, sent)

        upload = await env.change(by, work)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    env[Uploads].signal.notify()
    return upload


def _too_many() -> Conflict:
    return Conflict(
        f"You already have {MAX_WAITING} files here, including those being sent: import or discard"
        " one first."
    )


async def _written(path: Path, account_id: int, chunks: AsyncIterable[bytes]) -> int:
    """Writes the chunks to a file that other users cannot read; returns its size. Raises `Conflict`
    for too many files of the account on this host, including those still being sent."""
    size = 0
    try:
        # Not with parents: a data directory that is not mounted must not be created.
        for directory in (path.parent.parent, path.parent):
            directory.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            if len(list(path.parent.glob(f"{account_id}-*"))) > MAX_WAITING:
                raise _too_many()
            async for chunk in chunks:
                size += len(chunk)
                if size > MAX_BYTES:
                    raise PayloadTooLarge(f"The file is larger than {MAX_BYTES >> 20} MiB.")
                file.write(chunk)
                file.flush()  # its modification time shows that it is still being sent
            links = os.fstat(file.fileno()).st_nlink
    except OSError as error:
        raise Unavailable("The file could not be stored here.", 60) from error
    if not links:  # the upload paused for so long that a job deleted the file
        raise Unavailable("The file took too long to arrive: send it again.", 1)
    return size


async def begin_storing(env: Environment, upload_id: int, account_id: int, by: Author) -> None:
    """Lets the job store a checked file; does nothing if that has begun already. Raises `NotFound`,
    and `Conflict` for a file that cannot be stored."""

    async def work(change: Change) -> None:
        upload = await _own(env, change, upload_id, account_id)
        if upload.state in ("storing", "stored"):
            return
        if upload.state != "checked":
            raise Conflict("This file has not been checked, so it cannot be stored.")
        await change.check()
        change.noted_elsewhere()
        begun = {"state": "storing", "created_at": change.now, "seen_at": 0}
        after = msgspec.structs.replace(upload, **begun, **NO_COUNTS)
        await env[Uploads].move(change.tx, upload, after)
        await env[Uploads].report(change.tx, upload_id, [])

    await env.change(by, work)
    env[Uploads].signal.notify()


async def discard(env: Environment, upload_id: int, account_id: int, by: Author) -> None:
    """Deletes a file, unless it is being stored and not lost. Raises `NotFound` and `Conflict`."""

    async def work(change: Change) -> Upload:
        upload = await _own(env, change, upload_id, account_id)
        if upload.state == "storing" and not await is_lost(env, upload):
            raise Conflict("This file is being stored.")
        await change.check()
        change.noted_elsewhere()
        await env[Uploads].delete(change.tx, upload_id)
        return upload

    upload = await env.change(by, work)
    path_of(env, upload).unlink(missing_ok=True)


async def _own(env: Environment, change: Change, upload_id: int, account_id: int) -> Upload:
    upload = await change.lock(env[Uploads], upload_id)
    if upload is None or upload.account_id != account_id:
        raise NotFound("This import no longer exists.")
    return upload


POLL_SECONDS = 0.5
"""How often to check for work without a signal: files that another process received, or has
left."""

_ABANDONED = 2 * MINUTE
"""A file without an upload that has not changed for this long is no longer being sent."""

_PROGRESS_EVERY = SECOND // 2


class _TakenOver(Exception):
    """Another process has taken over the file."""


Account = Callable[[int], Awaitable[User | None]]


class ProcessUploads:
    """The files of one environment in this data directory."""

    def __init__(self, env: Environment, account: Account) -> None:
        """`account` finds the accounts that have sent the files."""
        self._env = env
        self._account = account
        self._signal = env[Uploads].signal.listener()
        self._wait = 0.0

    async def run(self) -> None:
        """Waits until there may be something to do, then works on the files one after the other,
        and removes files that are no longer needed. Raises `Unavailable`; then the next run
        continues."""
        await self._signal.wait(self._wait)
        self._wait = POLL_SECONDS
        uploads = await self._env[Uploads].all()
        self._clear({one.token for one in uploads if one.state in WAITING})
        for upload in uploads:
            if upload.under_way and exists(path_of(self._env, upload)):
                acting_for.set(upload.account_id)  # so that the account sees what is stored
                await self._take(upload)

    def _clear(self, known: set[str]) -> None:
        """Removes files that no upload needs: of uploads that were cut off with their process, are
        done, or were removed."""
        directory = self._env.uploads_directory
        for path in directory.iterdir() if directory.is_dir() else ():
            with suppress(FileNotFoundError):  # another process has removed it
                age = self._env.clock() - path.stat().st_mtime * SECOND
                if path.name not in known and age > _ABANDONED:
                    path.unlink()

    async def _take(self, upload: Upload) -> None:
        env, now = self._env, self._env.clock()
        async with env.db.transaction() as tx:
            channel = {"id": upload.id}
            claimed = await env[Uploads].queue.claim(
                tx, [(channel, 1)], now=now - SILENT, until=now
            )
        if not claimed:
            return
        (mine,) = claimed
        work = _Work(env, self._account, mine, await env[Uploads].rejected(mine.id))
        with suppress(_TakenOver, FileNotFoundError):  # another process has it, or it was discarded
            try:
                await work.do(path_of(env, mine))
            except (_TakenOver, FileNotFoundError, Unavailable):
                raise
            except asyncio.CancelledError:  # the server stops: another process need not wait
                with suppress(Unavailable, Contended):
                    async with env.db.transaction() as tx:
                        await env[Uploads].queue.move(tx, [mine.id], env.clock() - SILENT)
                raise
            except PorticoError as error:
                await work.end("failed", error.message)
            except Exception:
                await work.end("failed", "Something went wrong. Rows stored before that are kept.")
                raise


class _Work:
    """One pass over one file. `_upload` and `_rejected` are as stored, `_next` is what follows."""

    def __init__(
        self, env: Environment, account: Account, upload: Upload, rejected: list[Rejected]
    ) -> None:
        self._env = env
        self._account = account
        self._upload = upload
        self._rejected = rejected
        self._next = upload, rejected

    async def do(self, path: Path) -> None:
        """Checks the file, or stores the rows that are not stored yet. Raises `Conflict` if the
        file has another size than before: its end may have been lost in a power failure, and
        `Unavailable` where the database is kept for other files of kinds."""
        if self._env.check_kinds:
            await self._env.check_kinds()
        checking = self._upload.state == "checking"
        store = self._env.stores.get(self._upload.kind)
        if store is None:
            raise Conflict(f"There is no kind {self._upload.kind} any more.")
        kind: Compiled = store.kind
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != self._upload.size:
                stored = 0 if checking else self._upload.line
                rest = f"the rows after line {stored:,}" if stored else "it"
                raise Conflict(f"The server has lost part of the file: send {rest} again.")
            form = form_of(file, self._upload.name, kind.words)
            rows = read_rows(columns_of(kind), file, form, update=self._upload.updates)
            await (self._check(kind, rows) if checking else self._store(kind, rows))
        await self.end("checked" if checking else "stored")

    async def end(self, state: State, problem: str = "") -> None:
        """Stores the result, and removes the file if it is no longer needed."""
        # The counts of a batch that failed are not stored.
        following, rejected = (self._upload, self._rejected) if problem else self._next
        self._next = msgspec.structs.replace(following, state=state, problem=problem), rejected
        async with self._env.db.transaction() as tx:
            await self._write(tx)
        if state != "checked":
            path_of(self._env, self._upload).unlink(missing_ok=True)

    async def _check(self, kind: Compiled, rows: Iterator[FileRow]) -> None:
        self._next = msgspec.structs.replace(self._upload, **NO_COUNTS), []
        by = await self._sender(kind)
        async for outcome in check_in_batches(self._env, kind, rows, by, SMALL):
            self._count(*self._next, outcome)
            if self._env.clock() - self._upload.seen_at >= _PROGRESS_EVERY:
                async with self._env.db.transaction() as tx:
                    await self._write(tx)
                self._upload, self._rejected = self._next

    async def _store(self, kind: Compiled, rows: Iterator[FileRow]) -> None:
        by, line = await self._sender(kind), self._upload.line
        batches = store_in_batches(self._env, kind, rows, by, SMALL, self._keep, line)
        async with aclosing(batches):
            async for _ in batches:
                self._upload, self._rejected = self._next
                await self._sender(kind)

    async def _keep(self, change: Change, outcome: ImportOutcome) -> None:
        change.noted_elsewhere()
        self._count(self._upload, self._rejected, outcome)
        await self._write(change.tx)

    def _count(self, upload: Upload, rejected: list[Rejected], outcome: ImportOutcome) -> None:
        """Adds the outcome of a batch."""
        upload = msgspec.structs.replace(
            upload,
            seen_at=self._env.clock(),
            line=outcome.line,
            done=outcome.end,
            inserted=upload.inserted + outcome.inserted,
            updated=upload.updated + outcome.updated,
            unchanged=upload.unchanged + outcome.unchanged,
            faulty=upload.faulty + len(outcome.refused),
        )
        refused = outcome.refused[: MAX_TOLD - len(rejected)]
        more = [Rejected(row.line, _faults(row)) for row in refused]
        self._next = upload, rejected + more if more else rejected

    async def _write(self, tx: Transaction) -> None:
        following, rejected = self._next
        if not await self._env[Uploads].move(tx, self._upload, following):
            raise _TakenOver
        if rejected is not self._rejected:
            await self._env[Uploads].report(tx, following.id, rejected)

    async def _sender(self, kind: Compiled) -> Author:
        """The account that sent the file, as it is now. Raises `PermissionDenied` if it may no
        longer change such records."""
        user, actor = await self._account(self._upload.account_id), self._upload.actor
        if user is None or user.suspended_at is not None or kind.writes not in of_role(user.role):
            many = kind.many.replace("-", " ")
            raise PermissionDenied(f"The account that sent this file may no longer change {many}.")
        principal = Principal(
            user_id=actor.user_id or user.id,
            email=user.email,
            name=user.name,
            role=user.role,
            plan=user.plan,
            scopes=of_role(user.role),
            read_only=False,
            credential="session",
            credential_id=actor.credential_id or 0,
            expires_at=None,
        )
        return Author(actor, principal)


def _faults(row: FileRow) -> list[RowFault]:
    return [
        RowFault(fault.field, fault.message, row.given.get(fault.field, ""))
        for fault in row.faults[:MAX_FAULTS]
    ]
