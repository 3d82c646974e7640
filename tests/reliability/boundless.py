"""Installations in which no rate limit holds anyone up."""

from dataclasses import replace
from pathlib import Path

from operating import Installation, free_port

PER_DAY = 1_000_000
"""Fewer than in a minute: so every answer tells how many the day has left."""

LIMITS = f"per_minute = {10 * PER_DAY}\nper_day = {PER_DAY}\n"
SETTINGS = f"webhooks_allow = ['127.0.0.0/8']\n[plans.boundless]\n{LIMITS}[plans.free]\n{LIMITS}"


def boundless(directory: Path, **variables: str) -> Installation:
    """A prepared installation with these settings, where everyone may make a million requests a
    day."""
    (directory / "portico.toml").write_text(SETTINGS)
    empty = Installation(directory, variables)
    facts = empty.told("init")
    prepared = replace(empty, facts=facts)
    prepared.told("users", "set-plan", facts["admin"]["email"], "boundless")
    return prepared


def beside(installation: Installation, directory: Path) -> Installation:
    """An installation that shares the stores of another, with a data directory and port of its
    own."""
    (directory / "portico.toml").write_text(SETTINGS)
    shared = installation.having(secret_key_file=str(installation.data / "secret.key"))
    return replace(shared, directory=directory, port=free_port())
