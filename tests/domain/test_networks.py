"""Where deliveries may go, by their address and by what a webhook's URL says."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.core.errors import BrokenRule
from portico.core.networks import Address, Destinations, is_public

ANYWHERE_PUBLIC = Destinations()
LOOPBACK_TOO = Destinations((ip_network("127.0.0.0/8"),))

SPECIAL = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
    *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
    *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
          "172.15.255.255", "172.32.0.0", "192.0.1.0", "198.17.255.255", "198.20.0.0",
          "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1", "2001:200::1", "3ffe::1",
          "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]  # fmt: skip
INNER = ["::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd12:3456::1", "ff02::1",
         "100::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002::1",
         "2002:808:808::1", "3fff::1", "5f00::1", "4000::1", "::8.8.8.8", "64:ff9b:1::808:808",
         "64:ff9b:0:0:0:1::1", "64:ff9c::808:808"]  # fmt: skip

ipv4 = st.integers(0, 2**32 - 1).map(IPv4Address)
ipv6 = st.integers(0, 2**128 - 1).map(IPv6Address)
special = st.sampled_from(SPECIAL).flatmap(
    lambda text: st.integers(
        int(IPv4Network(text).network_address), int(IPv4Network(text).broadcast_address)
    ).map(IPv4Address)
)


def forms(address: IPv4Address) -> list[IPv6Address]:
    """The IPv6 addresses that carry an IPv4 one, where it has a fixed place."""
    low = int(address)
    prefixes = [0, 0xFFFF << 32, 0x64_FF9B << 96]
    return [
        *(IPv6Address(prefix | low) for prefix in prefixes if prefix | low > 1),
        IPv6Address(0x2002 << 112 | low << 80 | 1),
    ]


def spellings(address: IPv4Address) -> list[str]:
    """The ways in which `inet_aton` and browsers read an IPv4 address."""
    number = int(address)
    a, b, c, d = address.packed
    return [
        *(f"{address}", f"{address}.", f"{number}", f"{number:#x}", f"0{number:o}", f"{number:#X}"),
        *(f"{a}.{number & 0xFFFFFF}", f"{a}.{b}.{number & 0xFFFF}", f"{a}.{b}.{c}.{d:#x}"),
        *(f"{a:#x}.{b:#x}.{c:#x}.{d:#x}", f"0{a:o}.0{b:o}.0{c:o}.0{d:o}", f"{a:04o}.{b}.{c}.{d}"),
        *(f"{a:#x}.{number & 0xFFFFFF}", f"{number}.", f"{a}.{b}.{c}.0{d:o}", f"{number:#x}."),
    ]


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_permitted_over_https_alone(text: str) -> None:
    assert ANYWHERE_PUBLIC.permits(ip_address(text), encrypted=True)
    assert not ANYWHERE_PUBLIC.permits(ip_address(text), encrypted=False)
    assert not LOOPBACK_TOO.permits(ip_address(text), encrypted=False)


@pytest.mark.parametrize("text", INNER)
def test_ipv6_addresses_that_are_not_public_are_refused(text: str) -> None:
    assert not ANYWHERE_PUBLIC.permits(ip_address(text), encrypted=True)


@given(special)
def test_no_form_of_a_special_ipv4_address_is_permitted(address: IPv4Address) -> None:
    teredo = IPv6Address(0x2001 << 112 | 0x08080808 << 64 | int(address) ^ 0xFFFFFFFF)
    local_nat64 = IPv6Address(0x64_FF9B_0001 << 80 | int(address))
    every: list[Address] = [address, *forms(address), teredo, local_nat64]
    for form in every:
        assert not ANYWHERE_PUBLIC.permits(form, encrypted=True), form


@given(ipv4 | ipv6 | ipv4.flatmap(lambda address: st.sampled_from(forms(address))))
def test_what_is_public_is_so_for_the_standard_library_too(
    address: IPv4Address | IPv6Address,
) -> None:
    if is_public(address):
        assert address.is_global or getattr(address, "ipv4_mapped", None)
        assert not any((address.is_multicast, address.is_loopback, address.is_link_local))
    elif isinstance(address, IPv4Address):
        assert any(address in IPv4Network(network) for network in SPECIAL)


@given(ipv4)
def test_an_ipv4_exception_covers_its_ipv6_forms_over_http_too(address: IPv4Address) -> None:
    opened = Destinations((ip_network(address),))
    every: list[Address] = [address, *forms(address)]
    for form in every:
        assert opened.permits(form, encrypted=False)
        assert opened.permits(form, encrypted=True)


def test_an_exception_opens_nothing_else() -> None:
    opened = Destinations((ip_network("10.1.0.0/16"), ip_network("fd00:1::/32")))
    for text in ("10.1.255.255", "fd00:1::7", "::ffff:10.1.0.1"):
        assert opened.permits(ip_address(text), encrypted=False)
    for text in ("10.2.0.0", "127.0.0.1", "fd00:2::7", "::1", "::ffff:10.2.0.1", "fe80::1"):
        assert not opened.permits(ip_address(text), encrypted=True)
    for text in ("64:ff9b:1::10.1.0.1", "2001:0:808:808::f5fe:fffe"):  # no fixed place; Teredo
        assert not opened.permits(ip_address(text), encrypted=True)


@pytest.mark.parametrize(
    "url",
    ["https://example.com:8443/hook?a=%20b&c", "HTTPS://Example.COM/", "https://8.8.8.8/",
     "https://[2606:4700:4700::1111]:1/", "https://10.0.0.1.example.com/",
     "https://localhost.example.com/", "https://xn--bcher-kva.example/"],
)  # fmt: skip
def test_a_url_that_may_lead_to_a_public_address_passes_unchanged(url: str) -> None:
    assert ANYWHERE_PUBLIC.check_url(url) == url


@pytest.mark.parametrize(
    ("url", "message"),
    [("ftp://example.com/", "absolute http or https URL"),
     ("https://ada:secret@example.com/", "without credentials"),
     ("https://@example.com/", "without credentials"),
     ("https://example.com\\@10.0.0.1/", "absolute http or https URL"),
     ("https://example.com/".ljust(2049, "x"), "at most 2048 characters"),
     ("http://8.8.8.8/", "must be an https URL"), ("https://example.com/a?b#c", "no fragment"),
     ("https://example.com:65536/", "port from 1 to 65535"),
     ("https://10.0.0.1/", r"public address over https, which 10\.0\.0\.1 is not.*webhooks_allow"),
     ("https://LOCALHOST./", "public address"), ("https://a.localhost:8443/", "public address"),
     ("https://[::ffff:127.0.0.1]/", "public address"), ("https://[64:ff9b::7f00:1]/", "public"),
     ("https://127.1/", "four decimal numbers"), ("https://0x7f000001/", "four decimal numbers"),
     ("https://2130706433/", "four decimal numbers"), ("https://127.0.0.0x/", "four decimal"),
     (f"https://{'a' * 64}.com/", "at most 63 between dots"),
     (f"https://{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 62}/", "at most 253 characters")],
)  # fmt: skip
def test_a_url_that_cannot_be_delivered_to_is_refused(url: str, message: str) -> None:
    with pytest.raises(BrokenRule, match=message):
        ANYWHERE_PUBLIC.check_url(url)


@given(special)
def test_an_inner_address_is_refused_in_every_spelling(address: IPv4Address) -> None:
    hosts = [*spellings(address), *(f"[{form}]" for form in forms(address))]
    hosts += [f"[{form.exploded}]" for form in forms(address)]
    for host in hosts:
        for url in (f"https://{host}/", f"https://{host}:8443", f"http://{host}/"):
            with pytest.raises(BrokenRule):
                ANYWHERE_PUBLIC.check_url(url)


def test_http_is_for_exceptions_and_for_names_that_may_lead_there() -> None:
    for url in ("http://127.0.0.1:3000/hook", "http://[::ffff:127.9.9.9]/", "http://localhost:3000",
                "https://localhost/", "http://hooks.internal/", "https://127.0.0.1/"):  # fmt: skip
        assert LOOPBACK_TOO.check_url(url) == url
    for url in ("http://8.8.8.8/", "http://10.0.0.1/", "http://[::1]/"):
        with pytest.raises(BrokenRule, match="must be an https URL; http is only for"):
            LOOPBACK_TOO.check_url(url)
    with pytest.raises(BrokenRule, match="public address"):
        LOOPBACK_TOO.check_url("https://10.0.0.1/")
    with pytest.raises(BrokenRule, match="four decimal numbers"):
        LOOPBACK_TOO.check_url("http://127.1/")


@given(st.text(st.characters(exclude_categories=())), st.sampled_from(["", "https://", "http://["]))
def test_no_text_crashes_the_rule_of_urls(text: str, start: str) -> None:
    try:
        assert LOOPBACK_TOO.check_url(start + text) == start + text
    except BrokenRule:
        return
