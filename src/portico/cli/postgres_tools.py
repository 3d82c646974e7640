"""PostgreSQL's own programs, which know best how to copy a database: pg_dump and pg_restore."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from portico.cli.output import CommandError, plain

SEVERAL_HOSTS = {"PGCONNECT_TIMEOUT": "3", "PGTARGETSESSIONATTRS": "read-write"}
"""Leads these programs to the primary, also past a host that answers nothing."""


def dump(url: str, schemas: list[str], target: Path) -> None:
    """Writes one snapshot of the schemas in pg_dump's custom format. Raises `CommandError`."""
    _connected(
        "pg_dump",
        url,
        "--format=custom",
        "--no-owner",
        "--no-privileges",
        "--strict-names",
        *(f"--schema={schema}" for schema in schemas),
        f"--file={target}",
    )


def restore(url: str, source: Path) -> None:
    """Makes what `dump` wrote, all of it or nothing. Raises `CommandError`."""
    _connected(
        "pg_restore",
        url,
        "--single-transaction",
        "--exit-on-error",
        "--no-owner",
        "--no-privileges",
        str(source),
    )


def ledger(source: Path, schema: str) -> list[tuple[int, str, str, int | None]]:
    """What was applied to one schema of what `dump` wrote, as `migrate.due` takes it; empty where
    it holds no Portico. Touches no database. Raises `CommandError`."""
    told = _run(
        "pg_restore",
        ["--data-only", f"--schema={schema}", "--table=schema_migrations", "--file=-", str(source)],
        os.environ,
    )
    rows = re.search(
        r"^COPY \S+ \(number, name, checksum, applied_at(?:, compatible_from)?\) FROM stdin;\n"
        r"(.*?)^\\\.$",
        told,
        re.MULTILINE | re.DOTALL,
    )
    found = re.findall(
        r"^([0-9]{1,9})\t(\w+)\t(\w+)\t[^\t\n]*(?:\t([0-9]{1,9}))?",
        rows[1] if rows else "",
        re.MULTILINE,
    )
    return [
        (int(number), name, checksum, int(compatible) if compatible else None)
        for number, name, checksum, compatible in found
    ]


def check_version(program: str, server: int) -> None:
    """Raises `CommandError` unless the program is here and not older than the server's `server`
    (its major version): it would refuse that server, or lose what it does not know."""
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)  # noqa: S603 - a constant
    except (OSError, subprocess.CalledProcessError):
        raise CommandError(
            f"{program} is not installed here: install PostgreSQL's client programs, version"
            f" {server} or newer (on Debian and Ubuntu: postgresql-client-{server})."
        ) from None
    match = re.search(r"\d+", told.stdout)
    found = int(match[0]) if match else 0
    if found < server:
        raise CommandError(
            f"{program} is version {found} and the server is {server}: install PostgreSQL's client"
            f" programs of version {server} or newer (on Debian and Ubuntu:"
            f" postgresql-client-{server})."
        )


def _connected(program: str, url: str, *arguments: str) -> None:
    address, password = _without_password(url)
    # The process list shows arguments to everyone, but the environment to nobody else.
    environment = dict(os.environ) if password is None else {**os.environ, "PGPASSWORD": password}
    if "," in urlsplit(url).netloc.rpartition("@")[2]:  # these programs ask one host after another
        environment = {**SEVERAL_HOSTS, **environment}
    _run(program, ["--no-password", f"--dbname={address}", *arguments], environment)


def _run(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """What the program prints. Raises `CommandError` with the first line of its complaint."""
    try:
        done = subprocess.run(  # noqa: S603 - constants, and an address that went through the settings
            [program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise CommandError(f"{program} cannot be run: {error.strerror}.") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        said = lines[0].removeprefix(f"{program}: ").removeprefix("error: ")
        raise CommandError(f"{program} failed: {plain(said)}")
    return done.stdout


def _without_password(url: str) -> tuple[str, str | None]:
    """A connection URL without its password, and the password."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    query = parse_qsl(parts.query, keep_blank_values=True)
    in_query = dict(query).get("password")
    rest = urlencode([(key, value) for key, value in query if key != "password"])
    address = parts._replace(netloc=f"{name}{at}{place}", query=rest).geturl()
    return address, in_query or (unquote(password) if colon else None)
