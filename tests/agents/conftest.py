"""The application with kinds of its own, and agents that call its tools."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from driving import Api, settings_for
from portico.core.events import EVENTS
from portico.core.scopes import PERMISSIONS

KINDS = Path(__file__).parents[1] / "kinds" / "files"


@pytest.fixture(autouse=True)
def _forget_kinds() -> Iterator[None]:
    """Other tests of this process have Portico's own scopes and events alone."""
    yield
    PERMISSIONS.only_built_in()
    EVENTS.only_built_in()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The running application, with nobody in it."""
    async with Api(settings_for(tmp_path, {"PORTICO_KINDS": str(KINDS)})) as api:
        yield api
