"""Schemathesis calls a real server by its documents: every phase, every check (see `hooks.py`)."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from operating import Installation
from portico.mounts import AUTH, V1
from servers import PostgresServer

ROOT = Path(__file__).parents[2]
PLANS = "".join(
    f"[plans.{name}]\nper_minute = 1_000_000_000\nper_day = 1_000_000_000\n"
    for name in ("free", "enterprise")
)
"""Limits that no run reaches, for callers without a credential too."""

STREAM = "/events/stream"
"""An answer without an end, for which Schemathesis would wait."""

PHASES = {
    "sqlite": ["Examples", "Coverage", "Fuzzing", "Stateful"],
    "postgres": ["Examples", "Coverage"],
}
"""The second engine is tried in the long series alone, for what differs in it, which boundary
values meet; `tests/contract/test_bad_input.py` tries such values on it each time."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The engines."""
    engines = list(PHASES)[: 2 if metafunc.config.getoption("--long") else 1]
    metafunc.parametrize("engine", engines)


def test_schemathesis_finds_nothing(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    variables = {"log_requests": "off"}
    if engine == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        variables["database_url"] = server.fresh_database()
    (tmp_path / "portico.toml").write_text(PLANS)
    empty = Installation(tmp_path, variables)
    installation = Installation(tmp_path, variables, empty.told("init"), empty.port)
    client = installation.told(
        *("clients", "create", "--name", "Shop", "--redirect-uri", "https://shop.example/"),
        *("--scope", "read:products"),
    )
    with installation.serving():
        cases = "100" if request.config.getoption("--long") else "10"
        api, auth = (_run(installation, client, engine, cases, name) for name in ("base", "auth"))
    assert f"Tested: {len(V1) - 1}" in api
    assert f"Tested: {len(AUTH)}" in auth


def _run(
    installation: Installation, client: dict[str, Any], engine: str, cases: str, name: str
) -> str:
    """What Schemathesis says of the document at one of the addresses, after so many cases of each
    operation in the random phases."""
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            *("run", f"{installation.facts['urls'][name]}/openapi.json"),
            *("--tls-verify", installation.facts["ca_certificate"]),
            *("--header", f"Authorization: Bearer {installation.key}"),
            *("--phases", ",".join(PHASES[engine]).lower()),
            *("--max-examples", cases, "--no-color"),
            *("--exclude-path", STREAM),
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "PORTICO_TEST_USER_ID": str(installation.facts["admin"]["id"]),
            "PORTICO_TEST_CLIENT": f"{client['client_id']}:{client['client_secret']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for phase in PHASES[engine]:
        # The authorization server's document has no links, and so no states.
        assert f"✅ {phase}" in done.stdout or (phase == "Stateful" and name == "auth")
    return done.stdout
