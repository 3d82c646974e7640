"""What `portico doctor` may not read or write is a problem that it tells; it looks at all else."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from operating import COMMAND, Installation

WAIVED = "-dac_override,-dac_read_search"
BOUND = () if os.getuid() else ("setpriv", f"--bounding-set={WAIVED}", f"--inh-caps={WAIVED}")
"""Runs a command as an account that permissions hold for, which for root they do not."""

CHECKS = {"settings", "data directory", "certificate", "server"}


def as_owner(installation: Installation, *words: str) -> "subprocess.CompletedProcess[bytes]":
    """One command as the owner of the files."""
    return subprocess.run(
        [*BOUND, *COMMAND, *words],
        cwd=installation.directory,
        env=installation.environment,
        capture_output=True,
        check=False,
    )


def examined(installation: Installation) -> dict[str, dict[str, Any]]:
    """The problems that doctor finds, by check."""
    done = as_owner(installation, "doctor", "--json")
    findings = json.loads(done.stdout)["findings"]
    assert {one["check"] for one in findings} >= CHECKS, "all others went on"
    problems = {one["check"]: one for one in findings if not one["ok"]}
    assert (done.returncode, done.stderr) == (1 if problems else 0, b"")
    return problems


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("tls", {"certificate", "secret files"}),
        ("tls/server.pem", {"certificate"}),
        ("tls/ca.key", {"authority"}),
        ("secret.key", {"live signing keys", "sandbox signing keys"}),
    ],
)
def test_what_may_not_be_read_is_a_problem_of_its_check(
    installation: Installation, name: str, checks: set[str]
) -> None:
    assert examined(installation) == {}
    (installation.data / name).chmod(0)
    problems = examined(installation)
    (installation.data / name).chmod(0o700)
    assert set(problems) == checks
    for one in problems.values():
        assert str(installation.data / name) in one["message"]
        assert one["message"].endswith("Permission denied")
        assert (
            one["advice"]
            == "make the account that serves its owner, and run this command as that account"
        )


@pytest.mark.parametrize("mode", [0, 0o600])
def test_a_directory_that_may_not_be_searched_is_a_problem_of_each_check_that_needs_it(
    installation: Installation, mode: int
) -> None:
    installation.data.chmod(mode)
    problems = examined(installation)
    installation.data.chmod(0o700)
    needing = {"restore", "secret files", "certificate", "live database", "sandbox database"}
    assert set(problems) == needing | {"data directory"}
    assert {problems[one]["advice"].partition(",")[0] for one in needing} == {
        "make the account that serves its owner"
    }


def test_an_archive_behind_a_closed_door_is_a_problem(
    installation: Installation, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(0)
    archived = installation.having(audit_days="90", audit_archive=str(closed / "archive"))
    problems = examined(archived)
    closed.chmod(0o700)
    assert set(problems) == {"audit archive"}
    assert str(closed) in problems["audit archive"]["message"]


def test_files_of_a_database_that_may_only_be_read_are_named_until_all_may_be_written(
    installation: Installation,
) -> None:
    live, sandbox = installation.data / "live.db", installation.data / "sandbox.db"
    beside = [live.with_name(f"live.db-{kind}") for kind in ("wal", "shm")]
    live.chmod(0o400)
    assert set(problems := examined(installation)) == {"live database"}
    assert problems["live database"]["message"].endswith(f" {live}")
    assert not any(file.exists() for file in beside), "nor does doctor leave any"
    as_owner(installation, "users", "list")
    live.chmod(0o600)
    names = " ".join(map(str, beside))
    assert set(problems := examined(installation)) == {"live database"}
    assert problems["live database"]["message"].endswith(f" {names}")
    assert f"chmod 600 {names}," in problems["live database"]["advice"]
    for file in beside:
        file.chmod(0o600)
    assert examined(installation) == {}
    sandbox.chmod(0o400)
    assert set(examined(installation)) == {"sandbox database"}


def test_a_directory_whose_owner_may_not_write_is_found_with_the_command_that_helps(
    installation: Installation,
) -> None:
    installation.data.chmod(0o500)
    problem = examined(installation)["data directory"]
    assert problem["message"] == f"{installation.data} cannot be written"
    assert problem["advice"] == f"chmod 700 {installation.data}"
    installation.data.chmod(0o700)
    assert examined(installation) == {}


def test_a_start_that_may_not_read_the_authoritys_key_does_not_tell_to_make_another(
    installation: Installation,
) -> None:
    (installation.data / "tls" / "ca.key").chmod(0)
    elsewhere = "https://api.example.com"
    renewing = installation.having(base_url=f"{elsewhere}/v1", sandbox_url=f"{elsewhere}/sandbox")
    refused = as_owner(renewing, "serve")
    assert refused.returncode == 1
    assert refused.stderr.endswith(
        b"ca.key cannot be read: Permission denied: give it to the account that serves\n"
    )
