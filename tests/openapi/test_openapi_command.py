"""`portico openapi`."""

import json
from pathlib import Path

from operating import Installation


def test_it_prints_both_documents_of_either_environment_without_preparing_anything(
    tmp_path: Path,
) -> None:
    installation = Installation(tmp_path)
    live, sandbox = installation.told("openapi"), installation.told("openapi", "--sandbox")
    port = installation.port
    assert live["openapi"] == "3.1.0"
    assert live["servers"] == [{"url": f"https://localhost:{port}/v1"}]
    assert sandbox["servers"] == [{"url": f"https://localhost:{port}/sandbox/v1"}]
    assert live["paths"]["/users"] == sandbox["paths"]["/users"]
    assert live["paths"].keys() == sandbox["paths"].keys()
    auth, sandbox_auth = (
        installation.told("openapi", "--auth", *more) for more in ((), ("--sandbox",))
    )
    assert auth["servers"] == [{"url": f"https://localhost:{port}/auth"}]
    assert sandbox_auth["servers"] == [{"url": f"https://localhost:{port}/sandbox/auth"}]
    assert auth["paths"].keys() == sandbox_auth["paths"].keys()
    assert "/token" in auth["paths"].keys() - live["paths"].keys()
    assert not installation.data.exists()


def test_for_people_it_is_the_same_document_indented(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    printed = installation.run("openapi").stdout
    assert printed.startswith('{\n  "openapi": "3.1.0",\n')
    assert json.loads(printed) == installation.told("openapi")
