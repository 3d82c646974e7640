"""Callers, for which requests are counted: a kind, such as account or address, and a name."""

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network

import msgspec


class Kind(msgspec.Struct, frozen=True, eq=False):
    """A kind of caller. `spelling` is the prefix of its names in stores, and must never change.

    `by_strangers` is whether strangers choose the names, as with addresses. There can be any number
    of such names, so stores bound how many they keep.
    """

    spelling: str
    by_strangers: bool = True


ACCOUNT = Kind("user", by_strangers=False)
"""An account, by its id: requests to the API with any of its credentials."""
ACCOUNT_PAGES = Kind("pages", by_strangers=False)
"""An account, by its id: requests for pages."""
LIMITED = Kind("limit", by_strangers=False)
"""An account under a named limit, by its id and the limit's name, as `17:heavy`."""
CLIENT = Kind("client", by_strangers=False)
"""An OAuth client without an owner, by its id."""
MAIL = Kind("mail", by_strangers=False)
"""Mails to one account: by its id, the purpose and the hour."""
SIGN_UP = Kind("sign-up")
"""Mails to an e-mail without an account, by that e-mail and the hour; also sign-ups from one
address."""
ADDRESS = Kind("address")
"""Requests without a valid credential from an IPv4 address or an IPv6 network (/64)."""
NETWORK = Kind("network")
"""As `ADDRESS`, from a whole IPv6 network (/48), which is what one customer of a provider has."""
VISITOR = Kind("pages-address")
"""Requests for pages from an address, as for `ADDRESS`."""
VISITOR_NETWORK = Kind("pages-network")
"""As `VISITOR`, from a whole IPv6 network (/48)."""
GUARDED_ACCOUNT = Kind("guard-account")
"""Failed sign-ins to an account, existing or not, from addresses that it does not know."""
GUARDED_ACQUAINTANCE = Kind("guard-known")
"""Failed sign-ins to an account from one address that it knows."""
GUARDED_ADDRESS = Kind("guard-address")
"""Failed sign-ins from an address, to any account."""

GUARDS = (GUARDED_ACCOUNT, GUARDED_ACQUAINTANCE, GUARDED_ADDRESS)

KINDS = {
    kind.spelling: kind
    for kind in (
        *(ACCOUNT, ACCOUNT_PAGES, LIMITED, CLIENT, MAIL, SIGN_UP),
        *(ADDRESS, NETWORK, VISITOR, VISITOR_NETWORK),
        *GUARDS,
    )
}

Caller = tuple[Kind, int | str]
"""A kind and a name. A plain tuple, since every request makes one."""


def spelled(caller: Caller) -> str:
    """A caller as text, for stores."""
    return f"{caller[0].spelling}:{caller[1]}"


def read_caller(text: str) -> Caller | None:
    """The inverse of `spelled`; None for a kind that no longer exists."""
    spelling, _, name = text.partition(":")
    kind = KINDS.get(spelling)
    if kind is None:
        return None
    return kind, int(name) if not kind.by_strangers and name.isdecimal() else name


@lru_cache(maxsize=4096)
def network_of(address: str) -> str | None:
    """The IPv6 network (/48) of an address; None for any other address."""
    try:
        return str(IPv6Network((IPv6Address(address), 48), strict=False).network_address)
    except ValueError:
        return None
