"""Schemathesis calls a real server by its documents: every check (see `hooks.py`)."""

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

EACH_TIME = ["Examples", "Coverage"]
AT_RANDOM = [*EACH_TIME, "Fuzzing", "Stateful"]
"""What is tried at random, the document of the authorization server, and the second engine are for
the long series: `tests/contract/test_bad_input.py` tries values at random on both engines, and
`test_answers.py` has the answers of that server."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The engines, and the phases."""
    runs = [("sqlite", EACH_TIME)]
    if metafunc.config.getoption("--long"):
        runs = [("sqlite", AT_RANDOM), ("postgres", EACH_TIME)]
    metafunc.parametrize(("engine", "phases"), runs)


def test_schemathesis_finds_nothing(
    engine: str, phases: list[str], tmp_path: Path, request: pytest.FixtureRequest
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
        api = _run(installation, client, phases, "base")
        assert f"Tested: {len(V1) - 1}" in api
        if request.config.getoption("--long"):
            assert f"Tested: {len(AUTH)}" in _run(installation, client, phases, "auth")


def _run(installation: Installation, client: dict[str, Any], phases: list[str], name: str) -> str:
    """What Schemathesis says of the document at one of the addresses."""
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            *("run", f"{installation.facts['urls'][name]}/openapi.json"),
            *("--tls-verify", installation.facts["ca_certificate"]),
            *("--header", f"Authorization: Bearer {installation.key}"),
            *("--phases", ",".join(phases).lower()),
            *("--max-examples", "100", "--no-color"),
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
    for phase in phases:
        # The authorization server's document has no links, and so no states.
        assert f"✅ {phase}" in done.stdout or (phase == "Stateful" and name == "auth")
    return done.stdout
