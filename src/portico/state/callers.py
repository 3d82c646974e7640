"""Whom the stores of counters count: a kind and a name within it."""

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network

import msgspec


class Kind(msgspec.Struct, frozen=True, eq=False):
    """What a counter is of. `spelling` begins its name where it is stored, and never changes.

    Of kinds whose names strangers choose there may be any number, so what is kept and stored of
    them is bounded.
    """

    spelling: str
    by_strangers: bool = True


ACCOUNT = Kind("user", by_strangers=False)
"""An account, by its id: whatever its credentials ask of the API."""
ACCOUNT_PAGES = Kind("pages", by_strangers=False)
"""The same, looking at pages."""
CLIENT = Kind("client", by_strangers=False)
"""An OAuth client without an owner, by its id."""
MAIL = Kind("mail", by_strangers=False)
"""Mails to an account, by its id, their purpose and the hour."""
SIGN_UP = Kind("sign-up")
"""Mails to whoever has no account, by their e-mail and the hour; sign-ups from an address too."""
ADDRESS = Kind("address")
"""An address without a valid credential: IPv4, or an IPv6 network of 64 bits."""
NETWORK = Kind("network")
"""All of an IPv6 network of 48 bits together, as one customer of a provider has."""
VISITOR = Kind("pages-address")
"""An address that looks at pages."""
VISITOR_NETWORK = Kind("pages-network")
"""All of an IPv6 network of 48 bits that look at pages."""
GUARDED_ACCOUNT = Kind("guard-account")
"""Failures to sign in to an account, whether it exists or not, from addresses new to it."""
GUARDED_ACQUAINTANCE = Kind("guard-known")
"""The same from one address that the account knows."""
GUARDED_ADDRESS = Kind("guard-address")
"""Failures to sign in from an address."""

GUARDS = (GUARDED_ACCOUNT, GUARDED_ACQUAINTANCE, GUARDED_ADDRESS)

KINDS = {
    kind.spelling: kind
    for kind in (
        *(ACCOUNT, ACCOUNT_PAGES, CLIENT, MAIL, SIGN_UP),
        *(ADDRESS, NETWORK, VISITOR, VISITOR_NETWORK),
        *GUARDS,
    )
}

Caller = tuple[Kind, int | str]
"""Who is counted. A bare tuple, since every request makes one."""


def spelled(caller: Caller) -> str:
    """A caller as text, for stores."""
    return f"{caller[0].spelling}:{caller[1]}"


def read_caller(text: str) -> Caller | None:
    """The caller of a `spelled` text; None for one of a kind that is counted no more."""
    spelling, _, name = text.partition(":")
    kind = KINDS.get(spelling)
    if kind is None:
        return None
    return kind, int(name) if not kind.by_strangers and name.isdecimal() else name


@lru_cache(maxsize=4096)
def network_of(address: str) -> str | None:
    """The IPv6 network of 48 bits that an address is counted with; None for any other address."""
    try:
        return str(IPv6Network((IPv6Address(address), 48), strict=False).network_address)
    except ValueError:
        return None
