"""Portico in containers, of which each has its own processes and its own loopback interface."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from operating import COMMAND, TIMEOUT_SECONDS, Installation

CONTAINER = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc")
"""Runs a program as the first process of one."""

STARTING = "from portico.cli.stopping import end_at_once; end_at_once(); print(flush=True); input()"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_start_as_the_first_process_ends_when_it_is_told(how: signal.Signals) -> None:
    with subprocess.Popen(
        [*CONTAINER, "--kill-child", sys.executable, "-c", STARTING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as started:
        try:
            assert started.stdout
            assert started.stdout.readline()
            children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text("ascii")
            os.kill(int(children), how)
            assert started.wait(TIMEOUT_SECONDS) == 128 + how
        finally:
            started.kill()


def test_doctor_beside_the_servers_container_takes_it_for_neither_stuck_nor_away(
    installation: Installation,
) -> None:
    with installation.serving():
        done = subprocess.run(
            [*CONTAINER, *COMMAND, "doctor", "--json"],
            cwd=installation.directory,
            env=installation.environment,
            capture_output=True,
            check=False,
        )
        findings = json.loads(done.stdout)
        (server,) = (one for one in findings["findings"] if one["check"] == "server")
        assert server["message"].startswith("runs in another container")
        assert server["advice"] == "run this in its container to examine it too"
        assert (server["ok"], findings["ok"], done.returncode) == (True, True, 0)
