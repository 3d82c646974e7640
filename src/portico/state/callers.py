"""Whom the stores of counters count: a kind and a name within it."""

import msgspec


class Kind(msgspec.Struct, frozen=True, eq=False):
    """What a counter is of. `spelling` begins its name where it is stored, and never changes.

    Of kinds whose names strangers choose there may be any number, so what is kept and stored of
    them is bounded.
    """

    spelling: str
    by_strangers: bool = True


GUARDED_ACCOUNT = Kind("guard-account")
"""Failures to sign in to an account, whether it exists or not, from addresses new to it."""
GUARDED_ACQUAINTANCE = Kind("guard-known")
"""The same from one address that the account knows."""
GUARDED_ADDRESS = Kind("guard-address")
"""Failures to sign in from an address."""

KINDS = {kind.spelling: kind for kind in (GUARDED_ACCOUNT, GUARDED_ACQUAINTANCE, GUARDED_ADDRESS)}

Caller = tuple[Kind, int | str]
"""Who is counted. A bare tuple, since every request makes one."""


def spelled(caller: Caller) -> str:
    """A caller as text, for stores."""
    return f"{caller[0].spelling}:{caller[1]}"
