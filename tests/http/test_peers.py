"""Whose word counts about where a request came from."""

import tracemalloc
from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from portico.web.messages import Origin
from portico.web.peers import Peers

PROXY = "10.0.0.1"
CLIENT = "198.51.100.7"
FORGED = "127.0.0.1"
PEERS = Peers([ip_network("10.0.0.0/8"), ip_network("fd00::/8"), ip_network("127.0.0.0/8")])

HSTS = "strict-transport-security"
HTTPS = ("x-forwarded-proto", "https")


class Headers:
    """Headers as granian tells them: a line that is no text is there, and has no value."""

    def __init__(self, lines: tuple[tuple[str, str | None], ...]) -> None:
        self._lines = lines

    def __contains__(self, name: str) -> bool:
        return any(name == one for one, _ in self._lines)

    def get_all(self, name: str) -> list[str]:
        """The values of the lines of a name."""
        return [value for one, value in self._lines if one == name and value is not None]


def origin(*lines: tuple[str, str | None], peer: str = PROXY) -> Origin:
    scope: Any = SimpleNamespace(scheme="http", headers=Headers(lines))
    return PEERS.origin(f"{peer}:50000", scope)


def forwarded(*values: str | None) -> tuple[str, bool]:
    found = origin(*(("x-forwarded-for", value) for value in values))
    return found.address, found.known


@pytest.mark.parametrize(
    ("values", "address"),
    [
        ([CLIENT], CLIENT),
        ([f"{FORGED}, {CLIENT}"], CLIENT),
        ([FORGED, f"{CLIENT}, 10.0.0.2"], CLIENT),
        ([FORGED, CLIENT, "10.0.0.2,fd00::1"], CLIENT),
        ([f"{CLIENT}:4711"], CLIENT),
        (["[2001:db8::1]:4711"], "2001:db8::1"),
        ([f"::ffff:{CLIENT}"], CLIENT),
        ([f" ,{CLIENT} , ,"], CLIENT),
    ],
)
def test_last_address_that_is_no_proxys_is_the_client(values: list[str], address: str) -> None:
    assert forwarded(*values) == (address, True)


@pytest.mark.parametrize(
    "entry",
    [
        "unknown",
        f"{CLIENT}:\u0661",
        "[::1",
        "fe80::1%eth0",
    ],
)
def test_what_is_no_address_ends_the_walk_at_the_proxy_that_wrote_it(entry: str) -> None:
    assert forwarded(CLIENT, entry) == (PROXY, False)
    assert forwarded(f"{CLIENT}, {entry}, 10.0.0.9") == ("10.0.0.9", False)


@pytest.mark.parametrize(
    ("values", "last"),
    [([], PROXY), ([""], PROXY), ([" , ", ","], PROXY), (["10.0.0.3"], "10.0.0.3")],
)
def test_proxies_that_name_nobody_but_themselves_tell_of_no_client(
    values: list[str], last: str
) -> None:
    assert forwarded(*values) == (last, False)


def test_header_that_is_no_text_leads_nowhere() -> None:
    assert forwarded(None) == (PROXY, False)
    assert forwarded(None, CLIENT) == (CLIENT, True)


@given(forged=st.lists(st.text(max_size=40), max_size=4), client=st.ip_addresses())
@example(forged=[], client=ip_address("::ffff:10.0.0.0"))  # a proxy's, spelled otherwise
def test_nothing_that_a_client_sends_first_changes_who_it_is(
    forged: list[str], client: Any
) -> None:
    kept = [f"{line}, {client}" for line in forged[:1]] or [str(client)]
    counted = getattr(client, "ipv4_mapped", None) or client
    for values in ([*forged, str(client)], [*forged, *kept]):
        found = origin(*(("x-forwarded-for", value) for value in values))
        if not any(counted in network for network in PEERS._trusted_proxies):  # noqa: SLF001 - the same list
            assert ip_address(found.address) == counted
            assert found.known


@pytest.mark.parametrize(
    ("values", "secure"),
    [
        ([], False),
        (["https"], True),
        (["https", "http"], False),
        (["https, http"], False),
        (["http", "https"], True),
        (["http,https"], True),
    ],
)
def test_last_proxys_word_counts_about_https(values: list[str], *, secure: bool) -> None:
    assert origin(*(("x-forwarded-proto", value) for value in values)).secure == secure


def test_strangers_word_counts_for_nothing() -> None:
    told = origin(HTTPS, ("x-forwarded-for", FORGED), peer=CLIENT)
    assert (told.address, told.known, told.secure) == (CLIENT, True, False)


def test_browsers_may_insist_on_https_only_where_it_will_stay() -> None:
    direct: Any = SimpleNamespace(scheme="https", headers=Headers(()))
    policies = {
        "local authority": PEERS.origin(f"{CLIENT}:1", direct).headers,
        "own certificate": Peers((), own_certificate=True).origin(f"{CLIENT}:1", direct).headers,
        "proxy": origin(HTTPS).headers,
        "plain": origin().headers,
    }
    said = {name: dict(headers).get(HSTS) for name, headers in policies.items()}
    assert said == {
        "local authority": "max-age=0",
        "own certificate": "max-age=31536000",
        "proxy": "max-age=31536000",
        "plain": None,
    }
    assert all(("x-content-type-options", "nosniff") in headers for headers in policies.values())


def test_what_is_too_long_to_be_an_address_is_none_and_is_not_remembered() -> None:
    tracemalloc.start()
    try:
        for number in range(100):
            assert forwarded(f"{number}.{'x' * 60_000}, 10.0.0.2") == ("10.0.0.2", False)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1_000_000
