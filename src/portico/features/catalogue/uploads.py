"""Use cases of uploaded product files: take in, store once checked, discard."""

import asyncio
import os
from collections.abc import AsyncIterable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import (
    Conflict,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    PorticoError,
    Unavailable,
)
from portico.core.scopes import of_role
from portico.core.times import MINUTE, SECOND
from portico.data.database import Contended, Transaction, acting_for
from portico.data.disk import exists
from portico.environment import Environment
from portico.features.catalogue.files import read_products
from portico.features.catalogue.imports import check_in_batches, store_in_batches
from portico.features.catalogue.rules import (
    LOST,
    MAX_BYTES,
    MAX_FAULTS,
    MAX_TOLD,
    MAX_WAITING,
    NO_COUNTS,
    SILENT,
    WAITING,
    State,
    Upload,
)
from portico.features.catalogue.storage import Uploads
from portico.features.people.storage import Users
from portico.resource.file_rows import FileRow, ImportOutcome, Rejected, RowFault, form_of
from portico.resource.imports import SMALL


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
    name: str,
    chunks: AsyncIterable[bytes],
    by: Author,
    *,
    updates: bool,
) -> Upload:
    """Receives a file, to be checked by the job. If it does not arrive completely, nothing is kept.
    Raises `Conflict` for more than `MAX_WAITING` files, `PayloadTooLarge`, `Unavailable`, and what
    `chunks` raises."""
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
            sent = Upload(0, token, account_id, actor, name, updates, size, "checking", now)
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


class ProcessUploads:
    """The files of one environment in this data directory."""

    def __init__(self, env: Environment, accounts: Environment) -> None:
        """`accounts` is the environment of the accounts that have sent the files."""
        self._env = env
        self._accounts = accounts
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
                acting_for.set(upload.account_id)  # so that the account sees the stored products
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
        work = _Work(env, self._accounts, mine, await env[Uploads].rejected(mine.id))
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
        self, env: Environment, accounts: Environment, upload: Upload, rejected: list[Rejected]
    ) -> None:
        self._env = env
        self._accounts = accounts
        self._upload = upload
        self._rejected = rejected
        self._next = upload, rejected

    async def do(self, path: Path) -> None:
        """Checks the file, or stores the rows that are not stored yet. Raises `Conflict` if the
        file has another size than before: its end may have been lost in a power failure."""
        checking = self._upload.state == "checking"
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != self._upload.size:
                stored = 0 if checking else self._upload.line
                rest = f"the rows after line {stored:,}" if stored else "it"
                raise Conflict(f"The server has lost part of the file: send {rest} again.")
            form = form_of(file, self._upload.name, "product")
            rows = read_products(file, form, update=self._upload.updates)
            await (self._check(rows) if checking else self._store(rows))
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

    async def _check(self, rows: Iterator[FileRow]) -> None:
        self._next = msgspec.structs.replace(self._upload, **NO_COUNTS), []
        async for outcome in check_in_batches(self._env, rows, SMALL):
            self._count(*self._next, outcome)
            if self._env.clock() - self._upload.seen_at >= _PROGRESS_EVERY:
                async with self._env.db.transaction() as tx:
                    await self._write(tx)
                self._upload, self._rejected = self._next

    async def _store(self, rows: Iterator[FileRow]) -> None:
        by, line = Author(self._upload.actor), self._upload.line
        await self._require_permission()
        batches = store_in_batches(self._env, rows, by, SMALL, self._keep, line)
        async with aclosing(batches):
            async for _ in batches:
                self._upload, self._rejected = self._next
                await self._require_permission()

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

    async def _require_permission(self) -> None:
        """Raises `PermissionDenied` if the account that sent the file may no longer change
        products."""
        user = await self._accounts[Users].get(self._upload.account_id)
        if (
            user is None
            or user.suspended_at is not None
            or "write:products" not in of_role(user.role)
        ):
            raise PermissionDenied("The account that sent this file may no longer change products.")


def _faults(row: FileRow) -> list[RowFault]:
    return [
        RowFault(fault.field, fault.message, row.given.get(fault.field, ""))
        for fault in row.faults[:MAX_FAULTS]
    ]
