"""A server that does not begin to serve tells why."""

import sys
from pathlib import Path

import pytest

from operating import Installation, Service, until

SLOW = """
import signal, sys
print("Portico serves", end="", flush=True)
print("waiting for the database", file=sys.stderr, flush=True)
signal.pause()
"""


def test_who_waits_in_vain_for_a_server_sees_what_it_said(tmp_path: Path) -> None:
    service = Service(Installation(tmp_path), (), (sys.executable, "-c", SLOW))
    try:
        until(lambda: service.text, "the log")
        with pytest.raises(AssertionError, match="waiting for the database"):
            service.wait_until_ready(seconds=0)
    finally:
        service.end()
