"""Which addresses are public, where webhook deliveries may go, and from where keys may be used.

The tables are IANA's registries of special-purpose addresses, read strictly: a block with a few
global addresses in it is not public. `ipaddress` is not used for this, because its answers differ
between Python versions and ignore the IPv4 address that an IPv6 address may carry.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

from portico.core.errors import BrokenRule
from portico.core.text import web_url

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL_IPV4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network, unspecified
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by a carrier's customers
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, where clouds keep their metadata
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_SPECIAL_IPV6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052 §2.1
_IPV4_COMPATIBLE = IPv6Network("::/96")  # RFC 4291 §2.5.5.1
_LOOPBACK = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


_NETWORK = re.compile(r"[0-9A-Fa-f:.]+(/[0-9]{1,3})?")


def network(text: str) -> str:
    """Accepts an address or a network (RFC 4632 §3.1, RFC 4291 §2.3) and returns its normal form;
    IPv4-mapped IPv6 (RFC 4291 §2.5.5.2) becomes IPv4. Raises `BrokenRule`."""
    try:
        if not _NETWORK.fullmatch(text):
            raise ValueError  # noqa: TRY301 - as for what only looks like one
        found = _unmapped(ip_network(text))
    except ValueError:
        raise BrokenRule(
            "must be an address, or a network without bits set beyond its prefix, such as"
            " 192.0.2.7 or 10.0.0.0/8"
        ) from None
    return str(found) if "/" in text else str(found.network_address)


def _unmapped(found: Network) -> Network:
    mapped = getattr(found.network_address, "ipv4_mapped", None)
    if mapped is None or found.prefixlen < 96:
        return found
    return IPv4Network((mapped, found.prefixlen - 96))


def covers(networks: Iterable[str], other: str) -> bool:
    """Whether these networks cover all of the other one, each in the form of `network`."""
    inner = ip_network(other)
    # Both functions require networks of one IP version, which their types cannot express.
    same: list[Any] = [one for one in map(ip_network, networks) if one.version == inner.version]
    return any(inner.subnet_of(outer) for outer in collapse_addresses(same))


def is_loopback(host: str) -> bool:
    """Whether a host, by name or address, is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_within(peer: str, networks: Sequence[Network]) -> bool:
    """Whether an address, as text, belongs to one of the networks."""
    try:
        address = ip_address(peer.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)


Admits = Callable[[str], bool]
"""Whether an address, as text, is in some networks."""


def admitting(networks: Iterable[str]) -> Admits:
    """An `Admits` for these networks. It caches addresses, since it is called for every request."""
    known = tuple(map(ip_network, networks))
    return lru_cache(maxsize=256)(lambda peer: is_within(peer, known))


def is_public(address: Address) -> bool:
    """Whether an address is global unicast and cannot lead to an address of any other kind.

    An IPv6 address that is translated to IPv4 (mapped: RFC 4291 §2.5.5.2; NAT64) is judged by the
    IPv4 address that it carries.
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    translated = address.ipv4_mapped or (_low_bits(address) if address in _NAT64 else None)
    if translated:
        return is_public(translated)
    return address in _GLOBAL_UNICAST and not any(address in special for special in _SPECIAL_IPV6)


def _low_bits(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)


def _carried(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address carries at a fixed place. Not for NAT64 with a local
    prefix (RFC 8215), nor for Teredo, which also contains a relay's address."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64 or address in _IPV4_COMPATIBLE:
        return _low_bits(address)
    return address.ipv4_mapped or address.sixtofour


class Destinations(msgspec.Struct, frozen=True):
    """Where deliveries may go: over https to public addresses, and over http or https to those of
    `allow`. An IPv4 network in `allow` also covers IPv6 addresses that carry its addresses."""

    allow: tuple[Network, ...] = ()

    def permits(self, address: Address, *, encrypted: bool) -> bool:
        """Whether a delivery may be sent to this address."""
        carried = _carried(address) or address
        if any(address in network or carried in network for network in self.allow):
            return True
        return encrypted and is_public(address)

    def check_url(self, text: str) -> str:
        """Accepts a webhook's URL. The addresses of a host name are checked by `permits` at each
        connection.

        Raises `BrokenRule`.
        """
        parts = urlsplit(web_url(text))
        encrypted = parts.scheme == "https"
        if not (encrypted or self.allow):
            raise BrokenRule("must be an https URL")
        if "#" in text:
            raise BrokenRule("must have no fragment, which is never sent")
        self._check_host(parts.hostname or "", encrypted=encrypted)
        return text

    def _check_host(self, host: str, *, encrypted: bool) -> None:
        name = host.removesuffix(".")
        if name == "localhost" or name.endswith(".localhost"):  # RFC 6761 §6.3
            permitted = any(self.permits(one, encrypted=encrypted) for one in _LOOPBACK)
        elif address := _literal(host):
            permitted = self.permits(address, encrypted=encrypted)
        else:
            permitted = True
            if len(name) > 253 or any(len(label) > 63 for label in name.split(".")):
                raise BrokenRule(
                    "must have a host name of at most 253 characters, and at most 63 between dots"
                )
        if not permitted:
            raise BrokenRule(
                f"must lead to a public address over https, which {host} is not; an operator can"
                " add exceptions to webhooks_allow"
                if encrypted
                else f"must be an https URL; http is only for hosts in webhooks_allow, not {host}"
            )


ANYWHERE = Destinations((IPv4Network("0.0.0.0/0"), IPv6Network("::/0")))
"""For tools whose user chooses the destination, on their own machine."""


def _literal(host: str) -> Address | None:
    """The IP address that a URL's host spells; None for a host name.

    A host whose last label is a number is an IPv4 address in some spelling (WHATWG URL §3.5). Only
    the usual one is accepted: resolvers disagree about the others.
    """
    if ":" in host:
        return IPv6Address(host)
    if not re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.removesuffix(".").rpartition(".")[2]):
        return None
    try:
        return IPv4Address(host)
    except ValueError:
        raise BrokenRule(
            "must spell an IPv4 address as four decimal numbers, such as 192.0.2.7"
        ) from None


ANY = "*"
"""Every origin."""

_ORIGIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE | re.ASCII,
)
_USUAL_PORT = {"https": 443, "http": 80}


def origin(text: str) -> str:
    """An origin in the form that browsers send (RFC 6454 §6.2): lower case, no default port.
    Raises `BrokenRule`."""
    match = _ORIGIN.fullmatch(text)
    if not match or not 1 <= int(match["port"] or 1) <= 65535:
        raise BrokenRule(
            "must be * or comma-separated origins (scheme, host and optional port), such as"
            " https://app.example.com,http://localhost:5173"
        )
    scheme, port = match["scheme"].lower(), int(match["port"] or 0)
    shown = f":{port}" if port not in (0, _USUAL_PORT[scheme]) else ""
    return f"{scheme}://{match['host'].lower()}{shown}"


class StoreUrl(NamedTuple):
    """The parts of a URL, as they are written there."""

    rest: SplitResult
    """The URL without user and hosts."""
    user: str
    """The user, with the password if there is one, and the `@` after them; may be empty."""
    hosts: list[str]
    """Each with a port if there is one; a single empty text if the URL has no host."""

    def naming(self, host: str) -> str:
        """The URL with only this host."""
        return self.rest._replace(netloc=f"{self.user}{host}").geturl()


def read_store_url(url: str) -> StoreUrl:
    """Splits a URL. Raises ValueError as `urlsplit` does, which only supports one host: newer
    releases reject `[::1]` beside another."""
    scheme, slashes, rest = url.partition("//")
    netloc = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, hosts = netloc.rpartition("@")
    rest = rest.removeprefix(netloc)
    return StoreUrl(urlsplit(f"{scheme}{slashes}{rest}"), f"{user}{at}", hosts.split(","))
