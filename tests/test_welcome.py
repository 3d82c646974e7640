"""The line that the first start prints for pasting."""

import shlex
from pathlib import Path
from typing import Any

from portico.cli.initialise import welcome
from portico.settings import load

FACTS: dict[str, Any] = {
    "admin": {"email": "ada@example.com", "password": "…"},
    "keys": {"live": "…", "test": "…"},
    "urls": {
        "base": "https://api.example.com/v1",
        "dashboard": "https://api.example.com/dashboard",
    },
}


def pasted(variables: dict[str, str], directory: Path) -> list[str]:
    """The words that a shell makes of the line."""
    told = welcome(FACTS, load({}, variables, directory))
    line, _, rest = told[told.index("  curl") :].partition("\n\n")
    assert rest == "and the dashboard is at https://api.example.com/dashboard\n"
    return shlex.split(line.replace("\\\n", ""))


def test_local_authority_is_named_where_its_certificate_is_served(tmp_path: Path) -> None:
    directory = tmp_path / "it's here"
    directory.mkdir()
    assert pasted({}, directory) == [
        *("curl", "--cacert", str(directory / "portico-data" / "tls" / "ca.pem")),
        *("-H", "Authorization: Bearer …"),
        "https://api.example.com/v1/users/me",
    ]


def test_local_authority_is_left_out_where_another_certificate_is_served(tmp_path: Path) -> None:
    words = pasted({"PORTICO_TLS": "off", "PORTICO_TRUSTED_PROXIES": "::1"}, tmp_path)
    assert words == ["curl", "-H", "Authorization: Bearer …", "https://api.example.com/v1/users/me"]
