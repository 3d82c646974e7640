"""The application with kinds of its own, and agents that call its tools."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from driving import Api, settings_for
from oauth.authority import Authority, serving
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


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """The running server, with a product."""
    with serving(tmp_path_factory.mktemp("agents")) as running:
        body = {"name": "Lamp", "category": "light", "price": 1, "status": "active"}
        with running.client(running.installation.key) as admin:
            assert admin.post(f"{running.api}/products", json=body).status_code == 201
        yield running
