"""Runs PostgreSQL's own programs, pg_dump and pg_restore."""

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qsl, quote, unquote, urlencode

from portico.cli.output import CommandError, plain, progress
from portico.core.networks import read_store_url

SEVERAL_HOSTS = {"PGCONNECT_TIMEOUT": "3", "PGTARGETSESSIONATTRS": "read-write"}
"""Makes these programs connect to the primary, and skip hosts that do not answer."""

ENDING_SECONDS = 10.0
"""How long a program that is interrupted may take to cancel its work on the server."""

LOOK_SECONDS = 0.25
"""How often the progress of a program is looked at."""

SAID = 2000
"""The most characters of a program's error output that are shown: it may quote a statement."""

_SECRETS = ("password", "sslpassword")


class Failed(CommandError):
    """A program ended by itself and reported an error."""


def dump(url: str, schemas: list[str], target: Path) -> None:
    """Writes one snapshot of the schemas in pg_dump's custom format. Raises `CommandError`."""
    with progress("Dumping", None, "B") as bar:

        def look() -> None:
            with suppress(FileNotFoundError):
                bar.update(target.stat().st_size - bar.n)

        _connected(
            "pg_dump",
            url,
            "--format=custom",
            "--no-owner",
            "--no-privileges",
            "--strict-names",
            *(f"--schema={schema}" for schema in schemas),
            f"--file={target}",
            look=look,
        )


def restore(url: str, source: Path) -> None:
    """Restores what `dump` wrote, all of it or nothing. Raises `CommandError`."""
    with source.open("rb") as dump, progress("Restoring", source.stat().st_size, "B") as bar:
        _connected(
            "pg_restore",
            url,
            "--single-transaction",
            "--exit-on-error",
            "--no-owner",
            "--no-privileges",
            read=dump,
            # The program's place in the file is that of its standard input here.
            look=lambda: bar.update(os.lseek(dump.fileno(), 0, os.SEEK_CUR) - bar.n),
        )


def ledger(source: Path, schema: str) -> list[tuple[int, str, str, int | None]]:
    """The migrations applied to one schema of a dump, as `migrate.due` takes them; empty if it
    holds no Portico. Uses no database. Raises `CommandError`."""
    output = _run(
        "pg_restore",
        ["--data-only", f"--schema={schema}", "--table=schema_migrations", "--file=-", str(source)],
        os.environ,
    )
    rows = re.search(
        r"^COPY \S+ \(number, name, checksum, applied_at(?:, compatible_from)?\) FROM stdin;\n"
        r"(.*?)^\\\.$",
        output,
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
    """Raises `CommandError` unless the program is installed and at least of the major version
    `server`: an older one would refuse that server, or lose what it does not know."""
    try:
        output = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)  # noqa: S603 - a constant
    except (OSError, subprocess.CalledProcessError):
        raise CommandError(
            f"{program} is not installed here: install PostgreSQL's client programs, version"
            f" {server} or newer (on Debian and Ubuntu: postgresql-client-{server})."
        ) from None
    match = re.search(r"\d+", output.stdout)
    found = int(match[0]) if match else 0
    if found < server:
        raise CommandError(
            f"{program} is version {found} and the server is {server}: install PostgreSQL's client"
            f" programs of version {server} or newer (on Debian and Ubuntu:"
            f" postgresql-client-{server})."
        )


def _connected(
    program: str,
    url: str,
    *arguments: str,
    read: BinaryIO | None = None,
    look: Callable[[], object],
) -> None:
    # Other users see a process's arguments, but not its environment.
    address, secrets = _without_secrets(url)
    environment = dict(os.environ)
    if "password" in secrets:
        environment["PGPASSWORD"] = secrets["password"]
    if len(read_store_url(url).hosts) > 1:  # these programs try one host after another
        environment = {**SEVERAL_HOSTS, **environment}
    if "sslpassword" in secrets:  # libpq has no variable for it
        raise CommandError(
            "the database's URL has sslpassword: move it to the file of a service (PGSERVICEFILE,"
            " PGSERVICE)",
            2,
        )
    words = ["--no-password", f"--dbname={address}", *arguments]
    _run(program, words, environment, read=read, look=look)


def _run(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    read: BinaryIO | None = None,
    look: Callable[[], object] | None = None,
) -> str:
    """What the program, whose standard input is `read`, prints. Calls `look`, if given, now and
    then until it ends. Raises `Failed` with what it has written to its error output."""
    try:
        process = subprocess.Popen(  # noqa: S603 - constants, and an address that went through the settings
            [program, *arguments],
            # Another encoding, from the user's session, would lack letters of the data.
            env={**environment, "PGCLIENTENCODING": "UTF8"},
            stdin=read,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise Failed(f"{program} cannot be run: {error.strerror}.") from error
    with process:
        try:
            printed, complaint = _output(process, look)
        except BaseException:
            process.terminate()
            try:
                process.wait(ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
    if process.returncode != 0:
        # The first line often says only what was done, a later one why it failed.
        said = " ".join(complaint.split()) or f"exit code {process.returncode}"
        reason = said.removeprefix(f"{program}: ").removeprefix("error: ")
        raise Failed(f"{program} failed: {plain(reason[:SAID])}")
    return printed


def _output(process: "subprocess.Popen[str]", look: Callable[[], object] | None) -> tuple[str, str]:
    if look is None:
        return process.communicate()
    while True:
        with suppress(subprocess.TimeoutExpired):
            output = process.communicate(timeout=LOOK_SECONDS)
            look()
            return output
        look()


def _without_secrets(url: str) -> tuple[str, dict[str, str]]:
    """A connection URL without its passwords, and the passwords by their libpq names. libpq takes a
    `+` literally, and needs both slashes even in an address without a host."""
    parts, user, hosts = read_store_url(url)
    name, colon, password = user.removesuffix("@").partition(":")
    secrets = {"password": unquote(password)} if colon else {}
    query = parse_qsl(parts.query, keep_blank_values=True)
    secrets |= {key: value for key, value in query if key in _SECRETS and value}
    rest = urlencode([pair for pair in query if pair[0] not in _SECRETS], quote_via=quote)
    address = f"{parts.scheme}://{name}{'@' if user else ''}{','.join(hosts)}{parts.path}"
    return f"{address}?{rest}" if rest else address, secrets
