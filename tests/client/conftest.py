"""The client library against a real server over TLS, and against the application with a clock.

The server runs for all tests, so every test makes users, keys and products of its own.
"""

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from client.programs import TYPESCRIPT, run
from documents import ROOT
from driving import Api, settings_for
from node_packages import node_packages
from oauth.authority import Authority
from operating import Installation, free_port
from portico_client import AsyncClient, Client

ROOMY = "\n".join(
    f"[plans.{name}]\nper_minute = 1000000\nper_day = 1000000" for name in ("free", "enterprise")
)
"""Logins count against the address, all else against the first admin."""

RECEIVERS = 'webhooks_allow = ["127.0.0.1"]'
"""Where the tests take deliveries."""

TINY = "[plans.tiny]\nper_minute = 3\nper_day = 3"
"""For who is to reach a limit. A day, so that no turn of a minute gives more in between."""

SERVICE = """
[services.invoices]
path = "/invoices"
upstream = "http://127.0.0.1:{port}"

[services.invoices.scopes]
"read:invoices" = {{ about = "See invoices", roles = ["viewer", "editor"] }}
"write:invoices" = {{ about = "Create and change invoices", roles = ["editor"] }}

[[services.invoices.rules]]
path = "/status"
scope = "public"

[[services.invoices.rules]]
methods = ["GET", "HEAD"]
path = "/**"
scope = "read:invoices"

[[services.invoices.rules]]
methods = ["POST"]
path = "/**"
scope = "write:invoices"
limit = "heavy"

[limits.heavy]
per_day = 1000
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the caller's environment counts."""
    for name in ("API_KEY", "BASE_URL", "AUTH_URL", "CA"):
        monkeypatch.delenv(f"PORTICO_{name}", raising=False)


@pytest.fixture(scope="session")
def service_port() -> int:
    """Where the server forwards requests to the service `invoices`."""
    return free_port()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, service_port: int) -> Iterator[Authority]:
    """A server, with a first admin whom no limit holds up."""
    directory = tmp_path_factory.mktemp("client")
    service = SERVICE.format(port=service_port)
    (directory / "portico.toml").write_text(f"{RECEIVERS}\n{ROOMY}\n{TINY}\n{service}")
    empty = Installation(directory)
    prepared = Installation(directory, facts=empty.told("init"), port=empty.port)
    with prepared.serving():
        yield Authority(prepared)


@pytest.fixture
def ca(served: Authority) -> str:
    """The file with the server's certificate authority."""
    return str(served.certificate)


@pytest.fixture
def client(served: Authority, ca: str) -> Iterator[Client]:
    """A client with the first admin's key."""
    with Client(served.installation.key, base_url=served.api, ca=ca) as client:
        yield client


@pytest.fixture
async def async_client(served: Authority, ca: str) -> AsyncIterator[AsyncClient]:
    """The same, for asyncio."""
    async with AsyncClient(served.installation.key, base_url=served.api, ca=ca) as client:
        yield client


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The application in this process, with a clock to move."""
    async with Api(settings_for(tmp_path, {})) as api:
        yield api


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the client for TypeScript, built, and beside it the cases."""
    clients = tmp_path_factory.mktemp("clients")
    shutil.copytree(ROOT / "clients/cases", clients / "cases")
    made = shutil.ignore_patterns("node_modules", "dist", "*.tgz")
    place = Path(shutil.copytree(TYPESCRIPT, clients / "typescript", ignore=made))
    (place / "node_modules").symlink_to(node_packages(TYPESCRIPT))
    run(place, "npm", "run", "build")
    return place


@pytest.fixture(scope="session")
def package(library: Path) -> Path:
    """It as others install it, with what it depends on beside it."""
    told = json.loads(run(library, "npm", "pack", "--ignore-scripts", "--json"))
    (made,) = told.values() if isinstance(told, dict) else told  # by name, from npm 12 on
    modules = library.parent / "installed/node_modules"
    (modules / "@portico").mkdir(parents=True)
    run(library, "tar", "-xzf", made["filename"], "-C", str(modules / "@portico"))
    (modules / "@portico/package").rename(modules / "@portico/client")
    for name in ("jose", "@types", "express"):
        (modules / name).symlink_to(TYPESCRIPT / "node_modules" / name)
    (modules / "undici").symlink_to(TYPESCRIPT / "node_modules/undici-types")
    return modules / "@portico/client"
