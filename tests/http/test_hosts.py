"""One host has many spellings."""

import pytest

from portico.web.router import host_name


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("API.example.com.:443", "api.example.com"),
        ("api.example.com:", "api.example.com"),
        ("api.example.com:8443", "api.example.com:8443"),
        ("api.example.com..", "api.example.com."),
        ("api.example.com:0443", "api.example.com:0443"),
        ("[::1]", "[::1]"),
        ("[2001:DB8::1]:443", "[2001:db8::1]"),
        ("", ""),
    ],
)
def test_spellings_of_a_host_are_one_name(spelling: str, name: str) -> None:
    assert host_name(spelling) == name
