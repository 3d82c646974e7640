"""Use cases of uploaded product files: take in, store once checked, discard."""

import os
from collections.abc import AsyncIterable
from pathlib import Path

import msgspec

from portico.domain.audit import By
from portico.domain.errors import Conflict, NotFound, PayloadTooLarge, Unavailable
from portico.domain.uploads import (
    LOST,
    MAX_BYTES,
    MAX_WAITING,
    NO_COUNTS,
    SILENT,
    WAITING,
    Upload,
)
from portico.files import exists
from portico.services.change import Change
from portico.services.environment import Environment
from portico.storage.uploads import Uploads


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
    by: By,
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
    env[Uploads].bell.ring()
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


async def begin_storing(env: Environment, upload_id: int, account_id: int, by: By) -> None:
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
        await env[Uploads].tell(change.tx, upload_id, [])

    await env.change(by, work)
    env[Uploads].bell.ring()


async def discard(env: Environment, upload_id: int, account_id: int, by: By) -> None:
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
