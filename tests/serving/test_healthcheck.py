"""What the image asks its server, at whichever address that listens."""

import subprocess
import sys

import pytest

from documents import ROOT
from operating import Installation, free_port


def healthy(installation: Installation) -> bool:
    """Whether the image's question is answered."""
    asking = [sys.executable, str(ROOT / "deploy" / "healthcheck.py")]
    done = subprocess.run(
        asking, env=installation.environment, cwd=installation.directory, check=False
    )
    return done.returncode == 0


@pytest.mark.parametrize("host", ["::", "127.0.0.9"])
def test_server_is_found_healthy_at_the_address_where_it_listens(
    installation: Installation, host: str
) -> None:
    given = installation.having(host=host)
    assert not healthy(given)
    with given.serving():
        assert healthy(given)


def test_server_is_found_healthy_at_the_port_of_its_flag(installation: Installation) -> None:
    with installation.serving("--port", str(free_port())):
        assert healthy(installation)
