"""Installations whose admin no rate limit holds up."""

from dataclasses import replace
from pathlib import Path

from operating import Installation

PER_DAY = 1_000_000
"""Fewer than in a minute: so every answer tells how many the day has left."""

PLAN = f"[plans.boundless]\nper_minute = {10 * PER_DAY}\nper_day = {PER_DAY}\n"


def boundless(directory: Path, **variables: str) -> Installation:
    """A prepared installation with these settings, whose first admin may make a million requests a
    day."""
    (directory / "portico.toml").write_text(PLAN)
    empty = Installation(directory, variables)
    facts = empty.told("init")
    prepared = replace(empty, facts=facts)
    prepared.told("users", "set-plan", facts["admin"]["email"], "boundless")
    return prepared
