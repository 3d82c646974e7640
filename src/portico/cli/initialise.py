"""`portico init`: the data directory, the first admin and the first keys."""

import asyncio
import fcntl
import os
import shlex
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from portico.app import Portico, system_clock
from portico.cli.output import CommandError, answer, plain
from portico.cli.stopping import shielded
from portico.core.audit import OPERATOR
from portico.core.errors import Duplicate, OutcomeUnknown, Unavailable
from portico.data.disk import exists, resolved
from portico.features.operations.certificates import NAMES, Certificates, ensure
from portico.features.people.accounts import create_admin, give_key, random_password
from portico.features.people.storage import Users
from portico.lost import has_tables, is_prepared, require_files
from portico.secret_file import has_secret_file
from portico.settings import Settings

DEFAULT_EMAIL = "admin@example.com"
LOCK = "init.lock"
UNFINISHED = ".restoring"
"""The directory that `portico restore` keeps in a data directory until it has finished."""

_KEY = "First key"


def run(settings: Settings, chosen: Namespace) -> None:
    """Prepares a data directory that is not prepared yet, and prints the admin and their keys."""
    facts = asyncio.run(_prepare_first(settings, chosen.admin_email or DEFAULT_EMAIL))
    if facts is None:
        place = "database" if settings.database_url else "data directory"
        raise CommandError(f"This {place} is already prepared; nothing was changed.")
    show(facts, settings, as_json=chosen.json)


def show(facts: dict[str, Any], settings: Settings, *, as_json: bool) -> None:
    """Prints the admin's password and keys, which are shown only this once."""
    email = facts["admin"]["email"]
    answer(facts, welcome(facts, settings), as_json=as_json, lost=_what_was_created(email))


async def _prepare_first(settings: Settings, email: str) -> dict[str, Any] | None:
    """Like `prepare`, but if there is an admin, made by any release, it returns None and creates,
    migrates and renews nothing."""
    require_place(settings)
    if is_prepared(settings):
        portico = Portico(settings)
        await portico.connect()
        try:
            if await has_tables(portico.live.db) and await portico.live[Users].has_admin():
                return None
        finally:
            await portico.close()
    return await prepare(settings, email)


async def prepare(
    settings: Settings, email: str = DEFAULT_EMAIL, *, migrates: bool = True
) -> dict[str, Any] | None:
    """Creates what is missing. Returns the first admin with their secrets, or None if an admin
    exists. Without `migrates`, databases with pending migrations are left as they are. If this is
    cancelled while the admin is being stored, it still returns the admin. Raises `CommandError` and
    `Unavailable` as `require_place` does."""
    made: list[dict[str, Any]] = []
    try:
        await _prepare(settings, email, made, migrates=migrates)
    except asyncio.CancelledError:
        if not made:
            raise
    return made[0] if made else None


async def _prepare(
    settings: Settings, email: str, made: list[dict[str, Any]], *, migrates: bool
) -> None:
    require_place(settings)
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(settings.data):
        require_place(settings)  # a restore may have run before the lock was taken
        authority = _authority(settings)
        portico = Portico(settings, create=True)
        await portico.connect()
        try:
            if not migrates and await portico.is_behind():
                return
            await portico.migrate()
            if await portico.live[Users].first_admin() is None:
                with suppress(Duplicate):  # another host has just prepared the same database
                    await shielded(_first_admin(portico, email, authority), made)
        finally:
            await portico.close()


def require_place(settings: Settings) -> None:
    """Raises `CommandError` if a backup is being restored, or if SQLite databases would be created
    in the data directory of a server that has its database elsewhere or has lost it: nobody would
    notice. A secret given by a setting may exist before the first start. Raises `Unavailable` if
    one of the two SQLite databases is lost."""
    require_no_restore(settings.data)
    require_files(settings)
    # A file without tables does not count as a database: preparing makes tables before the secret.
    if has_secret_file(settings) and not is_prepared(settings):
        raise CommandError(
            f"{settings.data} has the secret of a server but no database; nothing was changed. Run"
            " this with that server's settings, or name another directory with --data. If the"
            " database is lost, restore a backup."
        )


def require_no_restore(data: Path) -> None:
    """Raises `CommandError` if a restore into the data directory is under way or was killed."""
    if fault := restore_fault(data):
        raise CommandError(f"{fault.message}: {fault.advice}.")


class RestoreFault(NamedTuple):
    """An unfinished restore, and what to do about it."""

    message: str
    advice: str


def restore_fault(data: Path) -> RestoreFault | None:
    """Why a data directory cannot be used, if a restore into it is unfinished; otherwise None."""
    if not exists(data / UNFINISHED):
        return None
    return RestoreFault(
        f"A restore into {data} is under way or was interrupted",
        f"wait until it ends, or remove all that is there, {UNFINISHED} too, and restore again",
    )


def _authority(settings: Settings) -> str:
    """The data directory's certificate authority that clients trust, created if missing. If the
    local authority is not used, any files of it stay as they are."""
    tls = settings.data / "tls"
    if settings.local_authority is None and any(exists(tls / name) for name in NAMES):
        return str(resolved(tls / "ca.pem"))
    return str(resolved(local_certificates(settings).ca_certificate))


def local_certificates(settings: Settings) -> Certificates:
    """The certificate authority and certificate of the data directory, created if missing."""
    return ensure(settings.data / "tls", settings.host_names, system_clock())


async def _first_admin(portico: Portico, email: str, authority: str) -> dict[str, Any]:
    password = random_password(portico.random)
    try:
        admin, live = await create_admin(
            portico.live, name="Admin", email=email, password=password, key_name=_KEY, by=OPERATOR
        )
    except OutcomeUnknown as error:
        message = f"{error.message} If the admin exists now: {_how_to_get_secrets(email)}"
        raise CommandError(message) from error
    try:
        test = await give_key(
            portico.live,
            admin,
            name=_KEY,
            key_type="test",
            expires_at=None,
            by=OPERATOR,
            mail_owner=False,  # no mail to the owner: the key is printed right now
        )
    except Unavailable as error:
        # That half of the message is true only of the sandbox: the admin is stored.
        reason = error.message.removesuffix("; nothing was changed.")
        raise CommandError(f"{reason}. {_what_was_created(email)}") from error
    settings = portico.settings
    return {
        "admin": {"id": admin.id, "email": admin.email, "password": password},
        "keys": {"live": live.secret, "test": test.secret},
        "ca_certificate": authority,
        "urls": {
            "base": settings.base_url,
            "sandbox": settings.sandbox_url,
            "auth": settings.auth_url,
            "dashboard": settings.dashboard_url,
        },
    }


def _what_was_created(email: str) -> str:
    """What was created although its secrets were not shown, and how to get new ones."""
    return f"The admin {plain(email)} and a live key were created: {_how_to_get_secrets(email)}"


def _how_to_get_secrets(email: str) -> str:
    return (
        f"portico users reset-password {plain(email)} prints a link to set a password; portico keys"
        f" create --owner {plain(email)} --name NAME --type live prints a key (--type test one for"
        " the sandbox)."
    )


def welcome(facts: dict[str, Any], settings: Settings) -> str:
    """The text that shows the secrets once."""
    admin, keys = facts["admin"], facts["keys"]
    # An operator who serves their own certificate knows how clients trust it.
    authority = settings.local_authority
    trust = f"--cacert {shlex.quote(str(authority))} " if authority else ""
    return f"""\
Portico is prepared. Store these now; they are not shown again.

  admin      {admin["email"]}
  password   {admin["password"]}
  live key   {keys["live"]}
  test key   {keys["test"]}

Once the server runs, this works:

  curl {trust}\\
    -H 'Authorization: Bearer {keys["live"]}' \\
    {facts["urls"]["base"]}/users/me

and the dashboard is at {facts["urls"]["dashboard"]}
"""


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Locks a data directory, so that processes that prepare it wait for each other."""
    lock = os.open(data / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
