"""`portico trust`: makes this machine and its browsers trust the local authority."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from portico.cli.arguments import Commands
from portico.cli.lazy import lazy_imports
from portico.cli.output import CommandError, answer, confirm

if TYPE_CHECKING:
    from portico.settings import Settings

with lazy_imports():
    from portico.data import disk
    from portico.features.operations import certificates

Find = Callable[[str], str | None]
"""Returns the path of a program, or None."""


def add_to(commands: Commands) -> None:
    """Declares `portico trust`."""
    parser = commands.verb(
        "trust", run, "show how to trust the local certificate authority, or do it"
    )
    parser.add_argument(
        "--install", action="store_true", help="trust it on this machine, after asking"
    )


class Store(NamedTuple):
    """A certificate store, and the commands that add the authority to it."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    here: bool
    """Whether the commands can be run on this machine."""


def run(settings: Settings, chosen: Namespace) -> None:
    """Prints the commands. With --install, runs those for this machine, after asking."""
    authority = settings.local_authority
    if authority is None:
        raise CommandError(
            "The local authority is not used: the settings name another certificate, or a proxy"
            " terminates TLS."
        )
    if not disk.exists(authority):
        raise CommandError(
            f"{authority} does not exist yet: portico init or portico serve creates it."
        )
    known = list(stores(authority, _home(), shutil.which))
    if chosen.install:
        known = [store for store in known if store.here]
        if not known:
            raise CommandError(
                "No certificate store was found on this machine; `portico trust` lists all kinds."
            )
        confirm(f"{_text(authority, known)}\nRun these commands?")
        for store in known:
            install(store)
    facts: dict[str, Any] = {
        "ca_certificate": str(authority),
        "stores": [
            {"name": one.name, "here": one.here, "commands": list(map(shlex.join, one.commands))}
            for one in known
        ],
    }
    text = "Restart your browser." if chosen.install else _text(authority, known)
    answer(facts, text, as_json=chosen.json)


def stores(authority: Path, home: Path, find: Find) -> Iterator[Store]:
    """All known stores. Programs and browser profiles tell which ones this machine has."""
    file = str(authority)
    # The authority's own name: an NSS store takes no two authorities of one name.
    added = partial(_added, file, certificates.inspect(authority).common_name)
    root = () if os.geteuid() == 0 else ("sudo",)
    placed = "/usr/local/share/ca-certificates/portico.crt"
    debian, fedora = find("update-ca-certificates"), find("trust")
    yield Store(
        "Debian, Ubuntu, Alpine: curl, Python and others",
        ((*root, "install", "-m", "644", file, placed), (*root, "update-ca-certificates")),
        here=debian is not None,
    )
    yield Store(
        "Fedora, Red Hat, Arch, openSUSE: curl, Python and others",
        ((*root, "trust", "anchor", "--store", file),),
        here=fedora is not None and debian is None,
    )
    nss = find("certutil") is not None and sys.platform == "linux"
    shared = home / ".pki" / "nssdb"
    make = (
        ("mkdir", "-p", str(shared)),
        ("certutil", "-N", "--empty-password", "-d", f"sql:{shared}"),
    )
    yield Store(
        "Chrome and Chromium on Linux",
        (*(() if (shared / "cert9.db").exists() else make), added(shared)),
        here=nss,
    )
    profiles = sorted(path.parent for path in home.glob(".mozilla/firefox/*/cert9.db"))
    yield Store(
        "Firefox on Linux",
        tuple(map(added, profiles)) or (added(home / ".mozilla" / "firefox" / "PROFILE"),),
        here=nss and bool(profiles),
    )
    keychain = "/Library/Keychains/System.keychain"
    add = ("sudo", "security", "add-trusted-cert", "-d", "-r", "trustRoot", "-k", keychain, file)
    yield Store("macOS: Safari, Chrome, curl", (add,), here=False)
    windows = ("certutil", "-addstore", "-f", "ROOT", "ca.pem")
    yield Store("Windows, as administrator, with a copy of the file", (windows,), here=False)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise CommandError("Your home directory is unknown: set HOME.") from None


def install(store: Store) -> None:
    """Runs a store's commands, whose output goes to standard error. Raises `CommandError` for the
    first one that fails."""
    for command in store.commands:
        try:
            done = subprocess.run(command, stdout=sys.stderr, check=False)  # noqa: S603 - shown and asked for
            failed = done.returncode
        except OSError:
            failed = 1
        if failed:
            raise CommandError(f"{store.name}: `{shlex.join(command)}` failed.")


def _added(file: str, name: str, store: Path) -> tuple[str, ...]:
    return ("certutil", "-A", "-d", f"sql:{store}", "-n", name, "-t", "C,,", "-i", file)


def _text(authority: Path, known: list[Store]) -> str:
    lines = [f"The local authority is {authority}; never hand out the ca.key beside it."]
    for store in known:
        lines += ["", f"{store.name}:", *(f"  {shlex.join(one)}" for one in store.commands)]
    return "\n".join(lines)
