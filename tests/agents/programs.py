"""Published programs for Node that speak to the server, and the one click of their user."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import httpx

from node_packages import node_packages
from oauth.authority import Authority
from operating import TIMEOUT_SECONDS, until

PROGRAMS = Path(__file__).parent / "node"

TOOLS = [
    *("list_kinds", "list_records", "read_record"),
    *("create_record", "change_record", "delete_record", "usage"),
]


@contextmanager
def started(
    authority: Authority, program: str, *arguments: str
) -> "Iterator[subprocess.Popen[str]]":
    """A program, by the Node that comes with the packages, in a home of its own."""
    [node] = node_packages(PROGRAMS).glob("node-linux-*/bin/node")
    with TemporaryDirectory() as home:
        own = {
            "NODE_EXTRA_CA_CERTS": str(authority.certificate),
            "HOME": home,
            "PATH": "",  # there is no browser that it could open
            "MCP_AUTO_OPEN_ENABLED": "true",  # the inspector asks although this is no terminal
        }
        with subprocess.Popen(
            [node, program, *arguments],
            cwd=PROGRAMS,
            env={**os.environ, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def ended(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """What a program has printed as its output and besides, once it has ended well."""
    printed, besides = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, (printed, besides)
    return printed, besides


def allow(authority: Authority, printed: IO[str] | None) -> None:
    """Somebody follows the address that a program prints, signs in, allows what the page asks, and
    is brought back to the program."""
    assert printed is not None
    asked = (re.search(r"https:\S+/authorize\?\S+", line) for line in printed)
    address = next(found[0] for found in asked if found)
    with authority.browser() as browser:
        page = browser.submit(browser.arrive(address), decision="allow")

    def brought_back() -> Any:
        with suppress(httpx.ConnectError):
            return httpx.get(page.left_for, timeout=TIMEOUT_SECONDS)

    assert until(brought_back, "the program's own server").status_code == 200
