"""A server that does not begin to serve tells why."""

import sys
from pathlib import Path

import pytest

from operating import Answer, Installation, Service, until

SLOW = """
import signal, sys
print("Portico serves", end="", flush=True)
print("waiting for the database", file=sys.stderr, flush=True)
signal.pause()
"""


WRONG = """
import json, signal, sys
for event in ("live.db is incomplete", "request"):
    print(json.dumps({"event": event, "request_id": "req_1"}), file=sys.stderr, flush=True)
print("Portico serves", flush=True)
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


def test_the_line_of_a_request_is_not_that_of_what_was_wrong_with_it(tmp_path: Path) -> None:
    with Installation(tmp_path).serving(program=(sys.executable, "-c", WRONG)) as service:
        line = service.line_of(Answer(503, {"x-request-id": "req_1"}, b""))
    assert line["event"] == "request"
