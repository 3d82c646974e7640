"""`portico backup` and `portico restore`: everything that cannot be recreated, in one file."""

import asyncio
import shlex
import shutil
import tempfile
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from portico.app import Portico, system_clock
from portico.cli.initialise import LOCK, UNFINISHED, locked, require_no_restore
from portico.cli.lock import NAME as SERVER_LOCK
from portico.cli.output import CommandError, answer, mention, needing_room, plain, progress
from portico.cli.prepared import prepared, unprepared
from portico.cli.stopping import removed_at_end
from portico.core.audit import OPERATOR
from portico.core.errors import PorticoError
from portico.data.database import Engine
from portico.data.disk import exists, replace_durably, sync_directory
from portico.data.migrate import Empty, MigrationError, advance, claim, due, make, rename, shipped
from portico.data.sqlite.files import FileError, copy, faults, ledger
from portico.engines import LIVE, SANDBOX, database, database_file, database_schema
from portico.features.access.signing import opens, wrong_secret
from portico.features.access.storage import SigningKey, SigningKeys
from portico.features.operations.certificates import NAMES, CertificateError, check_pair
from portico.features.operations.commands import postgres_tools
from portico.features.operations.commands.archive import Manifest, digests, pack, unpack
from portico.features.operations.commands.moving import move, size, skip_ids
from portico.features.operations.events import BackedUp
from portico.lost import is_prepared, require_files
from portico.resource.compiled import Kinds
from portico.resource.loading import load
from portico.resource.tables import keep
from portico.secret_file import NAME as SECRET
from portico.secret_file import SecretError, Secrets, found_secrets, is_given, read_secrets
from portico.settings import Settings
from portico.version import version
from portico.web.envelope import timestamp

ENVIRONMENTS = (LIVE, SANDBOX)
DUMP = "database.dump"
NOT_DATA = {"lost+found", LOCK, SERVER_LOCK}
"""Entries that do not make a directory non-empty: what the root of a file system has, and what a
start that was refused leaves behind."""

_VERSION = "SELECT current_setting('server_version_num')::bigint"
_FILES = {environment: f"{environment}.db" for environment in ENVIRONMENTS}
_ON_SQLITE: dict[str, Any] = dict.fromkeys(
    ("database_url", "database_read_url", "database_listen_url")
)
_SCHEMAS = [database_schema(environment) for environment in ENVIRONMENTS]
_MOVING = {f"{schema}_moving": schema for schema in _SCHEMAS}
_MAY_MAKE = "SELECT has_database_privilege(current_database(), 'CREATE')"
_SCHEMA = "SELECT 1 FROM pg_namespace WHERE nspname = :schema"


def run_backup(settings: Settings, chosen: Namespace) -> None:
    """Writes a snapshot of each database, the secret and the TLS files to one archive."""
    if chosen.file == "-":
        raise CommandError("a backup is not written to standard output: name a file", 2)
    archive = Path(chosen.file).absolute()
    if exists(archive):
        raise CommandError(f"{archive} already exists; nothing was changed.")
    if not archive.parent.is_dir():
        raise CommandError(f"There is no directory {archive.parent}.")
    require_files(settings)
    if not is_prepared(settings):
        raise unprepared(settings)
    try:
        with (
            needing_room(archive),
            removed_at_end(Path(tempfile.mkdtemp(prefix=".portico-", dir=archive.parent))) as work,
        ):
            manifest = _gather(settings, work)
            # Packed under another name first, so that FILE is complete as soon as it exists.
            unfinished = work / archive.name
            pack(manifest, work, unfinished)
            replace_durably(unfinished, archive)
    except FileError as error:
        raise CommandError(f"{error}.") from error
    size = archive.stat().st_size
    _note(settings, size)
    facts = {"file": str(archive), "bytes": size, "engine": manifest.engine}
    text = (
        f"Backed up to {archive}, {max(size // 1024, 1):,} KiB. It holds private keys and password"
        " hashes: keep it where nobody else can read it."
    )
    answer(facts, text, as_json=chosen.json)


def _note(settings: Settings, size: int) -> None:
    """Records a backup in the live audit log. If that fails, the backup is still good: says why."""

    async def note() -> None:
        async with prepared(settings) as portico:
            await portico.live.change.note(OPERATOR, BackedUp(size))

    try:
        asyncio.run(note())
    except (CommandError, MigrationError, PorticoError) as error:
        mention(f"The backup is complete, but the audit log does not list it: {error}")


def run_restore(settings: Settings, chosen: Namespace) -> None:
    """Restores a backup into a new data directory, and on PostgreSQL into a database without
    Portico. Changes nothing if it fails.
    """
    archive, data = Path(chosen.file).absolute(), settings.data
    with needing_room(data), _new_directory(data) as work:
        manifest = unpack(archive, work)
        _check_secrets(settings, work)
        with ExitStack() as restored:
            if manifest.engine == "sqlite":
                _check_sqlite(work)
            else:
                restored.enter_context(_restored_postgres(settings, work))
            if manifest.engine == "sqlite" and settings.database_url is not None:
                restored.enter_context(_moved_to_postgres(settings, work))
            else:
                asyncio.run(_make_current(replace(settings, data=work)))
            # The live database comes last: without it, a directory does not count as prepared.
            made = {Path(name).parts[0] for name in manifest.files} - {DUMP}
            if settings.database_url is not None:
                made -= set(_FILES.values())
            _require_empty(data, UNFINISHED)
            with ExitStack() as taken_back:
                for name in sorted(made, key=lambda name: name == f"{LIVE}.db"):
                    (work / name).rename(data / name)
                    taken_back.callback((data / name).rename, work / name)
                sync_directory(data)
                taken_back.pop_all()
    engine = "postgres" if settings.database_url else "sqlite"
    facts = {"data": str(data), "engine": engine, "created_at": manifest.created_at}
    start = shlex.join(["portico", "serve", "--data", str(data)])
    text = f"Restored the backup of {manifest.created_at} into {data}. Start it with: {start}"
    answer(facts, text, as_json=chosen.json)


@contextmanager
def _new_directory(data: Path) -> Iterator[Path]:
    """Yields a directory within the otherwise empty `data` to unpack into; no server starts in
    `data` meanwhile. If nothing was put into `data`, directories that this created are removed."""
    _require_empty(data)
    made = [path for path in (data, *data.parents) if not exists(path)]
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in made:
            sync_directory(path.parent)
        with locked(data):
            _require_empty(data)  # a server may have started before the lock was taken
            with removed_at_end(data / UNFINISHED) as work:
                work.mkdir(mode=0o700)
                yield work
            sync_directory(data)
    finally:
        with suppress(OSError):  # a directory that is not empty stays
            if made and [path.name for path in data.iterdir()] == [LOCK]:
                (data / LOCK).unlink()
            for path in made:
                path.rmdir()


def _require_empty(data: Path, *own: str) -> None:
    """Raises `CommandError` if `data` holds anything but `own`, which the restore put there."""
    if not own:
        require_no_restore(data)
    if exists(data) and {path.name for path in data.iterdir()} - NOT_DATA - {*own}:
        raise CommandError(f"{data} is not empty: restore into a new one with --data.")


def _gather(settings: Settings, work: Path) -> Manifest:
    (work / "tls").mkdir()
    for path in (settings.data / "tls" / name for name in NAMES):
        if exists(path):
            shutil.copy2(path, work / "tls" / path.name)
    if settings.database_url is not None:
        _check_pg_dump(settings)
    before = _secrets(settings)
    _check_opens(settings, before)
    if settings.database_url is None:
        sources = {name: database_file(settings, name) for name in ENVIRONMENTS}
        with progress("Copying", sum(file.stat().st_size for file in sources.values()), "B") as bar:
            for name, file in sources.items():
                copy(file, work / f"{name}.db", bar.update)
            bar.total = bar.n  # the copies lack what was deleted
    else:
        postgres_tools.dump(
            settings.database_listen_url or settings.database_url, _SCHEMAS, work / DUMP
        )
    # Read again: if it was replaced meanwhile, the copies may hold what the new one has encrypted.
    secrets = dict.fromkeys((*_secrets(settings), *before))
    (work / SECRET).touch(mode=0o600)
    (work / SECRET).write_bytes(b"\n".join((*secrets, b"")))
    return Manifest(
        portico=version(),
        engine="postgres" if settings.database_url else "sqlite",
        created_at=timestamp(system_clock()),
        files=digests(work),
    )


def _secrets(settings: Settings) -> Secrets:
    """The installation's secrets. Raises `CommandError` if there is none."""
    secrets = found_secrets(settings)
    if secrets is None:
        raise CommandError(
            "The installation's secret is missing, and a backup without it is incomplete: give it"
            " by secret_key_file (PORTICO_SECRET_KEY_FILE) or PORTICO_SECRET_KEY."
        )
    return secrets


def _check_opens(settings: Settings, secrets: Secrets) -> None:
    """Raises `Unavailable` unless the secrets are those of both databases."""
    if any(keys and not opens(secrets, keys) for keys in asyncio.run(_signing_keys(settings))):
        raise wrong_secret()


async def _signing_keys(settings: Settings) -> list[list[SigningKey]]:
    """The signing keys of each database. Raises `Unavailable` if one of the two is lost."""
    portico = Portico(settings)
    await portico.connect()
    try:
        return [await SigningKeys(env.db).all() for env in portico.environments]
    finally:
        await portico.close()


def _check_sqlite(work: Path) -> None:
    """Raises `CommandError` unless the unpacked files are intact databases of Portico."""
    for name in _FILES.values():
        file = work / name
        try:
            if found := faults(file):
                raise CommandError(f"The backup's {file.name} is damaged: {plain(found[0])}.")
            _check_ledger(file.name, "sqlite", ledger(file))
        except FileError as error:
            raise CommandError(f"The backup is damaged: {error}.") from error


@contextmanager
def _restored_postgres(settings: Settings, work: Path) -> Iterator[None]:
    """Restores the dump into the empty database, and empties it again if the block fails."""
    if settings.database_url is None:
        raise CommandError(
            "This is a backup of a PostgreSQL database: name a database without Portico in"
            " database_url (PORTICO_DATABASE_URL)."
        )
    with claimed(settings, _SCHEMAS) as empty:
        server = _empty_server(settings)
        postgres_tools.check_version("pg_restore", server // 10_000)
        for schema in _SCHEMAS:
            try:
                applied = postgres_tools.ledger(work / DUMP, schema)
            except CommandError as error:
                raise CommandError(f"The backup's {DUMP} is damaged: {error}") from error
            _check_ledger(schema, "postgres", applied)
        with _emptied_again(empty):
            address = settings.database_listen_url or settings.database_url
            postgres_tools.restore(address, work / DUMP)
            yield


@contextmanager
def _moved_to_postgres(settings: Settings, work: Path) -> Iterator[None]:
    """Moves the SQLite databases of a backup to PostgreSQL, and empties that again if the block
    fails. The schemas get their final names last, so if this is killed before, no Portico is
    found there."""
    with claimed(settings, [*_SCHEMAS, *_MOVING]) as empty:
        _empty_server(settings)
        kinds = load(settings.kinds, frozenset(settings.declared.roles)) if settings.kinds else None
        # Both engines have the same tables once both are migrated to this version.
        on_sqlite = replace(settings, data=work, **_ON_SQLITE)
        asyncio.run(_make_current(on_sqlite, kinds, skips=False))
        total = sum(size(work / name) for name in _FILES.values())
        with _emptied_again(empty), progress("Moving", total, " rows") as bar:
            asyncio.run(_move(settings, work, kinds, bar.update))
            yield


async def _move(
    settings: Settings, work: Path, kinds: Kinds | None, moved: Callable[[int], None]
) -> None:
    for (environment, name), schema in zip(_FILES.items(), _MOVING, strict=True):
        db = database(settings, environment, schema=schema)
        await db.open()
        try:
            await make(db, schema)
            await advance(db, system_clock)
            if kinds is not None:
                await keep(db, kinds, system_clock())
            await move(work / name, db, moved)
            if kinds is not None:
                await keep(db, kinds, system_clock())  # indexes the words
            await skip_ids(db, system_clock())
            if environment == SANDBOX:  # the last one
                await rename(db, _MOVING)
        except FileError as error:
            raise CommandError(f"The backup's {name} cannot be moved: {error}") from error
        finally:
            await db.close()


@contextmanager
def _emptied_again(empty: Callable[[], None]) -> Iterator[None]:
    """Removes what was created in the database if the block fails."""
    try:
        yield
    except postgres_tools.Failed:  # the program has rolled back by itself
        raise
    except BaseException as error:
        try:
            empty()
        except (PorticoError, KeyboardInterrupt) as also:
            raise CommandError(
                "The restore failed, and the database could not be emptied again: drop its"
                f" schemas {' and '.join(_SCHEMAS)} before the next try. {also}".rstrip()
            ) from error
        raise


async def _make_current(
    settings: Settings, kinds: Kinds | None = None, *, skips: bool = True
) -> None:
    """Migrates both databases to this version, which may be newer than that of the backup, and to
    `kinds`. With
    `skips`, new ids begin far above those of the backup, also in tables that the backup lacks: the
    installation that it was made of may have got them, and given out ids, afterwards."""
    for environment in ENVIRONMENTS:
        db = database(settings, environment)
        await db.open()
        try:
            await advance(db, system_clock)
            if kinds is not None:
                await keep(db, kinds, system_clock())
            if skips:
                await skip_ids(db, system_clock())
        finally:
            await db.close()


def _check_ledger(name: str, engine: Engine, applied: Sequence[Sequence[Any]]) -> None:
    """Raises `CommandError` unless a database was migrated by this version or an older one."""
    if not applied:
        raise CommandError(f"The backup's {name} holds no Portico.")
    try:
        due(applied, shipped(engine))
    except MigrationError as error:
        raise CommandError(f"The backup's {name} cannot be used: {plain(str(error))}") from error


def _check_secrets(settings: Settings, work: Path) -> None:
    """Raises `CommandError` unless a server can use the secret, and the authority if there is one
    with its key."""
    try:
        if exists(work / SECRET):
            needed, given = read_secrets(work / SECRET), found_secrets(settings) or ()
            if is_given(settings) and not set(needed) <= set(given):
                raise CommandError(
                    "The backup was made with another secret than secret_key_file"
                    " (PORTICO_SECRET_KEY_FILE) or PORTICO_SECRET_KEY gives: give the backup's"
                    " there, alone or after the present one, or give none to use the backup's."
                )
        # Only the authority matters, since clients trust it: a server renews its own certificate.
        authority, key = work / "tls" / "ca.pem", work / "tls" / "ca.key"
        if exists(authority) and exists(key):
            check_pair(authority, key)
    except (SecretError, CertificateError) as error:
        raise CommandError(f"The backup is damaged: {error}") from error


def _empty_server(settings: Settings) -> int:
    """PostgreSQL's version number. Raises `CommandError` if the database holds a Portico, or the
    role may not create its schemas."""
    server, taken, may_make = asyncio.run(_server(settings))
    if taken:
        raise CommandError("The database already holds a Portico: restore into another one.")
    if not may_make:
        raise CommandError(
            "The role of database_url may not create schemas in that database: GRANT CREATE ON"
            " DATABASE … TO …, or make the role its owner."
        )
    return server


def _check_pg_dump(settings: Settings) -> None:
    """Raises `CommandError` unless pg_dump fits the server and there is something to dump."""
    server, taken, _ = asyncio.run(_server(settings))
    if not taken:
        raise CommandError("The database is not prepared: there is nothing to back up.")
    postgres_tools.check_version("pg_dump", server // 10_000)


async def _server(settings: Settings) -> tuple[int, bool, bool]:
    """PostgreSQL's version number, whether one of the schemas exists, and whether the role may
    create schemas."""
    db = database(settings, LIVE)
    await db.open()
    try:
        version_number = (await db.all(_VERSION))[0][0]
        may_make = (await db.all(_MAY_MAKE))[0][0]
        found = [await db.one(_SCHEMA, {"schema": schema}) for schema in _SCHEMAS]
    finally:
        await db.close()
    return int(version_number), any(found), bool(may_make)


@contextmanager
def claimed(settings: Settings, schemas: Sequence[str]) -> Iterator[Callable[[], None]]:
    """`claim` through the direct address, which PostgreSQL's own programs also use. The block may
    run synchronous code and event loops of its own."""
    with asyncio.Runner() as runner:
        claiming = _claim(settings, schemas)
        empty = runner.run(claiming.__aenter__())
        try:
            yield lambda: runner.run(empty())
        finally:
            with suppress(PorticoError):  # the claim was lost, so there is nothing to release
                runner.run(claiming.__aexit__(None, None, None))


@asynccontextmanager
async def _claim(settings: Settings, schemas: Sequence[str]) -> AsyncIterator[Empty]:
    direct = settings.database_listen_url or settings.database_url
    alone = replace(settings, database_url=direct, database_listen_url=None, database_read_url=None)
    db = database(alone, LIVE)
    await db.open()
    try:
        async with claim(db, schemas) as empty:
            yield empty
    finally:
        await db.close()
