"""Installations whose admin no rate limit holds up."""

from pathlib import Path

import pytest

from operating import Installation
from reliability.boundless import boundless


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """A prepared installation on SQLite, in which nothing limits the first admin."""
    return boundless(tmp_path)
