"""The client's address, also behind trusted proxies, and whether the connection was encrypted."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any

from portico.core.networks import Network, is_within
from portico.web.messages import Origin, Scope

_NOSNIFF = ("x-content-type-options", "nosniff")
_HSTS = ("strict-transport-security", "max-age=31536000")
_HSTS_OFF = ("strict-transport-security", "max-age=0")

FORWARDED_FOR = "x-forwarded-for"

UNSECURED = (_NOSNIFF,)
"""Headers of every response over plain HTTP; over HTTPS there is one more (RFC 6797 §7.2)."""


LONGEST_ENTRY = 64
"""Longer than any address in brackets with a port, in characters."""


class Peers:
    """The trusted proxies. Forwarding headers from anyone else are ignored."""

    def __init__(
        self, trusted_proxies: Sequence[Network], *, own_certificate: bool = False
    ) -> None:
        """`own_certificate` says whether the operator has configured a certificate. Only then are
        browsers told to insist on HTTPS: the local authority's may be gone tomorrow."""
        self._trusted_proxies = trusted_proxies
        self._direct = (_NOSNIFF, _HSTS if own_certificate else _HSTS_OFF)
        self.trusts = lru_cache(maxsize=4096)(self._is_trusted)
        """Whether a peer is a trusted proxy."""

    def origin(self, client: str, scope: Scope) -> Origin:
        """The origin of a request. `client` is the peer's address and port (RSGI)."""
        peer = client.rpartition(":")[0]
        if not self._trusted_proxies or not self.trusts(peer):
            secure = scope.scheme == "https"
            headers = self._direct if secure else UNSECURED
            return Origin(peer, known=True, secure=secure, headers=headers)
        # A proxy may add a line or a value: the last one is the trusted proxy's own.
        said = ",".join(scope.headers.get_all("x-forwarded-proto"))
        secure = said.rpartition(",")[2].strip().lower() == "https"
        address, known = self._forwarded(scope.headers, peer)
        return Origin(address, known, secure, (_NOSNIFF, _HSTS) if secure else UNSECURED)

    def _is_trusted(self, peer: str) -> bool:
        return is_within(peer, self._trusted_proxies)

    def _forwarded(self, headers: Any, peer: str) -> tuple[str, bool]:
        """The last address of `X-Forwarded-For` that is not a trusted proxy's, and whether there is
        one. Without one, the address is a proxy's, which must not pass for the client's. An entry
        that is not an address ends the search at the proxy that wrote it."""
        lines = headers.get_all(FORWARDED_FOR)  # empty if granian could not read the header
        for entry in reversed(",".join(lines).split(",")):
            entry = entry.strip()
            if not entry:
                continue
            # Longer entries may be any client's invention and are not cached.
            address = address_of(entry) if len(entry) <= LONGEST_ENTRY else None
            if address is None:
                return peer, False
            if not self.trusts(address):
                return address, True
            peer = address
        return peer, False


@lru_cache(maxsize=4096)
def address_of(entry: str) -> str | None:
    """The address of an entry of `X-Forwarded-For` in its normal form, without the port that
    some proxies add."""
    bracketed, found, port = entry.removeprefix("[").partition("]")
    if entry.startswith("[") and found:
        host, port = bracketed, port.removeprefix(":")
    elif entry.count(":") == 1:
        host, _, port = entry.partition(":")
    else:
        host, port = entry, ""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    # A zone has a meaning only on the proxy, and would give one address many names.
    if (port and not (port.isascii() and port.isdigit())) or getattr(address, "scope_id", None):
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)


@lru_cache(maxsize=4096)
def limited_as(peer: str) -> str:
    """The name under which an address is counted: a /64 network of IPv6 counts as one caller."""
    try:
        address = ip_address(peer.strip("[]"))
    except ValueError:
        return peer[:64]
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(IPv6Network((address, 64), strict=False).network_address)
    return str(address)
