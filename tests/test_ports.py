"""No two tests are given one port, whichever processes they run in."""

import os
import subprocess
import sys
from pathlib import Path

from ports import free_port

FEW = range(17_000, 19_400)
"""Room for some runs at one time, and still so few that two would meet."""
TAKE = f"""
from ports import free_port
print(*(free_port(range({FEW.start}, {FEW.stop})) for _ in range(100)), flush=True)
input()
"""


def test_no_port_is_given_twice_also_beside_another_run(tmp_path: Path) -> None:
    ours = [free_port(FEW) for _ in range(100)]
    with subprocess.Popen(
        [sys.executable, "-c", TAKE],
        cwd=Path(__file__).parent,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # as another `script/test` has
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = [int(port) for port in other.stdout.readline().split()]
        more = [free_port(FEW) for _ in range(100)]
        other.communicate("\n")
    assert len({*ours, *theirs, *more}) == 300
