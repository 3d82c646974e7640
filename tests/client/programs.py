"""Programs that use the clients: what they find in their environment, how they run, and keys."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from documents import ROOT
from oauth.authority import Authority
from operating import TIMEOUT_SECONDS, until
from portico_client import Client

PYTHON, TYPESCRIPT = ROOT / "clients/python", ROOT / "clients/typescript"

one_worker = pytest.mark.xdist_group("typescript")
"""Marks what needs the client for TypeScript, so that it is built once."""


def run(place: Path, *argv: str | Path) -> str:
    """What a program prints that must end well."""
    done = subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]
    return done.stdout


def environment(served: Authority, **more: str) -> dict[str, str]:
    """What a program finds in its environment."""
    ca = str(served.certificate)
    own = {
        "PORTICO_API_KEY": served.installation.key,
        "PORTICO_BASE_URL": served.api,
        "PORTICO_AUTH_URL": served.issuer,
        "PORTICO_CA": ca,
        "NODE_EXTRA_CA_CERTS": ca,
    }
    return {**os.environ, **own, **more}


def tried(served: Authority, *argv: str | Path, **more: str) -> "subprocess.CompletedProcess[str]":
    """A program, to its end."""
    own = environment(served, **more)
    return subprocess.run(
        argv, env=own, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS * 3
    )


@contextmanager
def running(
    served: Authority, said: Path, *argv: str | Path, **more: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A program that goes on, and writes what it prints into the file `said`."""
    with said.open("wb") as output:
        process = subprocess.Popen(
            argv, env=environment(served, **more), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def listening(served: Authority, said: Path, *argv: str | Path, **more: str) -> Iterator[str]:
    """The first that a program prints, such as the address at which it serves."""
    with running(served, said, *argv, **more) as process:
        until(lambda: said.read_text() or process.poll() is not None, "the start")
        assert process.poll() is None, said.read_text()
        yield said.read_text().strip()


def key_of(served: Authority, role: str, plan: str = "", **more: Any) -> str:
    """A key of a new user."""
    person = served.person(role)
    if plan:
        served.installation.told("users", "set-plan", person.email, plan)
    return new_key(served, name="A", user_id=person.id, **more)


def new_key(served: Authority, **values: Any) -> str:
    """A key that the first admin makes."""
    ca = str(served.certificate)
    with Client(served.installation.key, base_url=served.api, ca=ca) as admin:
        return admin.api_keys.create(**{"type": "live", **values}).key
