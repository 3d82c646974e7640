"""What the tests of reliability start from."""

from pathlib import Path

import pytest

from operating import Installation
from reliability.boundless import boundless


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """A prepared installation on SQLite, in which no rate limit holds anyone up."""
    return boundless(tmp_path)
