"""Who is on the other end, behind trusted proxies or not, and whether the way was encrypted."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from portico.domain.errors import PermissionDenied
from portico.http.messages import Scope

Network = IPv4Network | IPv6Network


class Peers:
    """The trusted proxies. Nobody else's forwarded headers are believed."""

    def __init__(self, trusted_proxies: Sequence[Network]) -> None:
        self._trusted_proxies = trusted_proxies
        self._trusts = lru_cache(maxsize=4096)(self._is_trusted)

    def origin(self, scope: Scope) -> tuple[str, bool]:
        """The caller's address, and whether the whole way from there was HTTPS."""
        peer = scope.client.rpartition(":")[0]
        if self._trusted_proxies and self._trusts(peer):
            secure = (scope.headers.get("x-forwarded-proto") or "").lower() == "https"
            return self._forwarded(scope.headers.get("x-forwarded-for"), peer), secure
        return peer, scope.scheme == "https"

    def _is_trusted(self, peer: str) -> bool:
        return is_within(peer, self._trusted_proxies)

    def _forwarded(self, header: str | None, peer: str) -> str:
        """The last address of `X-Forwarded-For` that is not itself a trusted proxy."""
        for hop in reversed((header or "").split(",")):
            address = hop.strip()
            if not address:
                continue
            if not self._trusts(address):
                return address
            peer = address
        return peer


def is_within(peer: str, networks: Sequence[Network]) -> bool:
    """Whether an address, as text, belongs to one of the networks."""
    try:
        address = ip_address(peer.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)


def plain_http(secure_address: str) -> PermissionDenied:
    """The refusal of plain HTTP. It never redirects: the credential has leaked already."""
    return PermissionDenied(
        f"Plain HTTP is refused; use {secure_address}. If you sent a credential, replace it."
    )


@lru_cache(maxsize=4096)
def limited_as(peer: str) -> str:
    """The name under which an address is counted: an IPv6 network of 64 bits is one caller."""
    try:
        address = ip_address(peer.strip("[]"))
    except ValueError:
        return peer[:64]
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(IPv6Network((address, 64), strict=False).network_address)
    return str(address)
