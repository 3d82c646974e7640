"""Installations in which no rate limit holds anyone up."""

import atexit
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from operating import Installation, free_port

PER_DAY = 1_000_000
"""Fewer than in a minute: so every answer tells how many the day has left."""

LIMITS = f"per_minute = {10 * PER_DAY}\nper_day = {PER_DAY}\n"
SETTINGS = f"webhooks_allow = ['127.0.0.0/8']\n[plans.boundless]\n{LIMITS}[plans.free]\n{LIMITS}"


def boundless(directory: Path, **variables: str) -> Installation:
    """A prepared installation with these settings, where everyone may make a million requests a
    day."""
    if "database_url" not in variables:
        prepared = _on_sqlite()
        (directory / "portico.toml").write_text(SETTINGS)
        shutil.copytree(prepared.data, directory / "data")
        return replace(prepared, directory=directory, variables=variables, port=free_port())
    return _prepared(directory, variables)


@cache
def _on_sqlite() -> Installation:
    """One to copy, since keys and databases take a second to make."""
    directory = Path(mkdtemp(prefix="portico-boundless-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return _prepared(directory, {})


def _prepared(directory: Path, variables: dict[str, str]) -> Installation:
    (directory / "portico.toml").write_text(SETTINGS)
    empty = Installation(directory, variables)
    prepared = replace(empty, facts=empty.told("init"))
    prepared.told("users", "set-plan", prepared.facts["admin"]["email"], "boundless")
    return prepared


def beside(installation: Installation, directory: Path) -> Installation:
    """An installation that shares the stores of another, with a data directory and port of its
    own."""
    (directory / "portico.toml").write_text(SETTINGS)
    shared = installation.having(secret_key_file=str(installation.data / "secret.key"))
    return replace(shared, directory=directory, port=free_port())
