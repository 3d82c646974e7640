"""The application in process, and a browser without a screen."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from driving import Api, settings_for


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The running application on SQLite, with nobody in it."""
    api = Api(settings_for(tmp_path, {}))
    await api.start()
    yield api
    await api.aclose()
    await api.stop()
