"""Who serves a data directory, as commands see it: where no setting says so, they tell of its
addresses."""

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forking
from operating import TIMEOUT_SECONDS, Installation, Service, free_port
from portico.cli.lock import NAME, holder, only_server

HOST = "127.0.0.2"


@pytest.fixture
def flagged(installation: Installation) -> Iterator[Service]:
    """A server that listens where its flags say, and no setting."""
    port = free_port()
    with installation.serving("--host", HOST, "--port", str(port)) as service:
        yield service


def told(installation: Installation, *words: str, **variables: str) -> Any:
    """What a command prints that is given `variables`, and a port by none else."""
    environment = dict(installation.having(**variables).environment)
    if "port" not in variables:
        del environment["PORTICO_PORT"]
    done = forking.run([*words, "--json"], installation.directory, environment, TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def link(installation: Installation, **variables: str) -> str:
    """The link of an invitation."""
    words = ("users", "invite", "guest@example.com", "--role", "viewer")
    return str(told(installation, *words, **variables)["link"])


def test_links_and_documents_lead_to_the_port_that_a_flag_gave_the_server(
    flagged: Service,
) -> None:
    installation = flagged.installation
    origin = flagged.said.split("Portico serves ")[1].split("/v1")[0]
    assert origin.startswith(f"https://{HOST}:")

    assert link(installation).startswith(f"{origin}/dashboard/")
    reset = told(installation, "users", "reset-password", "admin@example.com")
    assert reset["link"].startswith(f"{origin}/dashboard/")
    assert told(installation, "openapi")["servers"][0]["url"] == f"{origin}/v1"
    assert told(installation, "openapi", "--sandbox")["servers"][0]["url"].startswith(origin)


def test_what_a_setting_says_is_told_whatever_the_flags_of_the_server(flagged: Service) -> None:
    installation = flagged.installation
    assert link(installation, port="9001", host="127.0.0.3").startswith("https://127.0.0.3:9001/")
    home = "https://home.example.com/dashboard"
    assert link(installation, dashboard_url=home).startswith(f"{home}/")


def test_of_two_commands_that_ask_none_takes_the_other_for_a_server(tmp_path: Path) -> None:
    with only_server(tmp_path, "127.0.0.1", 9443):
        assert holder(tmp_path) is not None
    with (tmp_path / NAME).open() as asked:
        fcntl.flock(asked, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as `holder` does it
        assert holder(tmp_path) is None
