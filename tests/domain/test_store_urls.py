"""Several hosts in one URL, also such as `urlsplit` refuses beside others."""

import pytest

from portico.core.networks import read_store_url


@pytest.mark.parametrize("user", ["", "ann@", "ann:p%40ss@", "ann:a@b@"])
@pytest.mark.parametrize("rest", ["", "/", "/shop", "?db=3", "/shop?x=1,2&y=a/b@c", "#end"])
@pytest.mark.parametrize(
    "hosts", [[""], ["one"], ["one:1", "two"], ["one", "[::1]:2"], ["[::1]", "[fe80::2]:2", "h"]]
)
def test_each_host_gets_a_url_of_its_own(user: str, rest: str, hosts: list[str]) -> None:
    given = read_store_url(f"valkey+cluster://{user}{','.join(hosts)}{rest}")
    assert (given.user, given.hosts) == (user, hosts)
    for host in filter(None, hosts):
        assert given.naming(host) == f"valkey+cluster://{user}{host}{rest}"
