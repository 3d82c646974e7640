"""What clients learn of each protected resource (RFC 9728), and where refusals say it is."""

from pathlib import Path

import pytest

from declared_services import DECLARED
from driving import BASE, Api, settings_for

HOST = "https://localhost:8443"
WELL_KNOWN = f"{HOST}/.well-known/oauth-protected-resource"


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    """A configuration with services."""
    file = tmp_path / "portico.toml"
    file.write_text(DECLARED)
    return file


@pytest.mark.parametrize("environment", ["live", "sandbox"])
@pytest.mark.parametrize(
    ("path", "scopes", "method"),
    [
        ("/products", None, "GET"),
        ("/mcp", {"read:products", "write:products", "read:users", "write:users"}, "POST"),
        ("/invoices", {"read:invoices", "write:invoices"}, "GET"),
    ],
    ids=["api", "mcp", "service"],
)
async def test_refusals_lead_to_the_metadata_of_their_resource(
    tmp_path: Path,
    declared: Path,
    environment: str,
    path: str,
    scopes: set[str] | None,
    method: str,
) -> None:
    resource = BASE[environment] + (path if scopes else "")
    metadata = WELL_KNOWN + resource.removeprefix(HOST)
    async with Api(settings_for(tmp_path, {"PORTICO_CONFIG": str(declared)})) as api:
        nobody = api.stranger()
        refusal = await nobody.request(method, BASE[environment] + path)
        assert refusal.status_code == 401
        said = refusal.headers["www-authenticate"]
        assert f'resource_metadata="{metadata}"' in said
        assert ('scope="read:' in said) == (path != "/mcp")
        found = (await nobody.get(metadata)).json()
    assert found["resource"] == resource
    issuer = f"{HOST}/auth" if environment == "live" else f"{HOST}/sandbox/auth"
    assert found["authorization_servers"] == [issuer]
    listed = set(found["scopes_supported"])
    assert "offline_access" not in listed
    assert listed == scopes if scopes else {"admin", "read:products"} <= listed
