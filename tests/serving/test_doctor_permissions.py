"""What `portico doctor` may not read is a problem that it tells, and keeps it from nothing else."""

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

CHECKS = {"settings", "data directory", "certificate", "mail", "server"}


def examined(installation: Installation) -> dict[str, dict[str, Any]]:
    """The problems that doctor finds as the owner of the files, by check."""
    done = subprocess.run(
        [*BOUND, *COMMAND, "doctor", "--json"],
        cwd=installation.directory,
        env=installation.environment,
        capture_output=True,
        check=False,
    )
    findings = json.loads(done.stdout)["findings"]
    assert {one["check"] for one in findings} >= CHECKS, "all others went on"
    problems = {one["check"]: one for one in findings if not one["ok"]}
    assert (done.returncode, done.stderr) == (1 if problems else 0, b"")
    return problems


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("tls", {"certificate"}),
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
        assert one["advice"] == "give it to the account that serves, and run this as that one"


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
        "give it to the account that serves"
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
