"""The client library against a real server over TLS, and against the application with a clock.

The server runs for all tests, so every test makes users, keys and products of its own.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from beside import Running, prepared
from driving import Api, settings_for
from portico_client import Client


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the caller's environment counts."""
    for name in ("API_KEY", "BASE_URL", "AUTH_URL", "CA"):
        monkeypatch.delenv(f"PORTICO_{name}", raising=False)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server, with a first admin whom no limit holds up."""
    installation = prepared(tmp_path_factory.mktemp("client"))
    with installation.serving() as service:
        yield Running(installation, service)


@pytest.fixture(scope="session")
def ca(served: Running) -> str:
    """The file with the server's certificate authority."""
    return str(served.installation.data / "tls" / "ca.pem")


@pytest.fixture(scope="session")
def base_url(served: Running) -> str:
    """The server's base address."""
    return f"https://localhost:{served.installation.port}/v1"


@pytest.fixture
def client(served: Running, base_url: str, ca: str) -> Iterator[Client]:
    """A client with the first admin's key."""
    with Client(served.installation.key, base_url=base_url, ca=ca) as client:
        yield client


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The application in this process, with a clock to move."""
    api = Api(settings_for(tmp_path, {}))
    await api.start()
    yield api
    await api.aclose()
    await api.stop()
