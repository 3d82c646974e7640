"""Portico in containers, of which each has its own processes and its own loopback interface."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from operating import PATIENCE_SECONDS

CONTAINER = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc")
"""Runs a program as the first process of one."""

STARTING = "from portico.cli.stopping import end_at_once; end_at_once(); print(flush=True); input()"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_start_as_the_first_process_ends_when_it_is_told(how: signal.Signals) -> None:
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
            assert started.wait(PATIENCE_SECONDS) == 128 + how
        finally:
            started.kill()
