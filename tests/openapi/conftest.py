"""The application in process, and the document of its live API and authorization server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from driving import Api, settings_for
from portico.core.plans import DEFAULT_PLANS
from portico.mounts import AUTH, V1
from portico.openapi.document import DocumentPart, document

ADDRESS = "https://localhost:8443/v1"
AUTH_ADDRESS = "https://localhost:8443/auth"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The running application on SQLite, with nobody in it."""
    async with Api(settings_for(tmp_path, {})) as api:
        yield api


@pytest.fixture(scope="session")
def described() -> dict[str, Any]:
    """The document of the whole of version 1 and of signing in."""
    return document(
        DocumentPart(ADDRESS, V1),
        DocumentPart(AUTH_ADDRESS, AUTH),
        DEFAULT_PLANS,
        site_name="Portico",
    )
