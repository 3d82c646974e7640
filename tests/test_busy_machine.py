"""What a busy machine adds is told from what takes long by itself."""

import subprocess
import sys
import time
from pathlib import Path

from busy_machine import added

WORK = """
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
while time.process_time() < 0.5:
    pass
"""


def test_what_waits_for_a_processor_is_not_late() -> None:
    with added() as more:
        began = time.monotonic()
        at_once = [subprocess.Popen([sys.executable, "-c", WORK]) for _ in range(2)]
        assert [process.wait() for process in at_once] == [0, 0]
        took = time.monotonic() - began
        assert more.seconds > 0.4
        assert took - more.seconds < 0.9


LATE = """
import time
from busy_machine import within
with within(0.1):
    time.sleep(2)
"""


def test_what_waits_for_something_else_is_late() -> None:
    done = subprocess.run(  # beside whose processes, others of these tests have many that wait
        [sys.executable, "-c", LATE],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == "AssertionError"
