"""The application with kinds of its own, and agents that call its tools."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from browser.elsewhere import serving_elsewhere
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


@contextmanager
def stocked(directory: Path, settings: str = "") -> Iterator[Authority]:
    """A running server with a product. It trusts other sites of its own authority."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("SSL_CERT_FILE", str(directory / "data" / "tls" / "ca.pem"))
            running = stack.enter_context(serving(directory, settings))
        body = {"name": "Lamp", "category": "light", "price": 1, "status": "active"}
        with running.client(running.installation.key) as admin:
            assert admin.post(f"{running.api}/products", json=body).status_code == 201
        yield running


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """The running server."""
    with stocked(tmp_path_factory.mktemp("agents")) as running:
        yield running


@pytest.fixture(scope="session")
def registering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """Another, at which clients may register themselves."""
    directory = tmp_path_factory.mktemp("registering")
    with stocked(directory, 'client_registration = "on"') as running:
        yield running


@pytest.fixture(scope="session")
def document(authority: Authority) -> Iterator[str]:
    """The address at another site of a client's own document, which nobody here has registered."""
    with serving_elsewhere(authority.certificate.parent) as site:
        address = f"{site.origin}/client.json"
        back = ["http://127.0.0.1/callback", "http://127.0.0.1/oauth/callback"]
        site.page = json.dumps(
            {
                "client_id": address,
                "client_name": "Assistant",
                "redirect_uris": [*back, "http://localhost/oauth/callback"],
                "token_endpoint_auth_method": "none",
            }
        )
        yield address
