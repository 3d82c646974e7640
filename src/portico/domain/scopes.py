"""The permission model: what a role has, and what a credential passes on of it."""

from portico.domain.resources import SCOPED
from portico.domain.words import ROLES

SCOPE_WORDS: dict[str, str] = {
    f"{deed}:{kind.plural}": words
    for kind in SCOPED
    for deed, words in (("read", kind.see), ("write", kind.change))
} | {"admin": "Administer everything: plans, keys, clients and the audit log"}
"""What each scope lets its bearer do, the harmless ones first."""

SCOPES = tuple(SCOPE_WORDS)

READ_SCOPES = frozenset(f"read:{kind.plural}" for kind in SCOPED)
"""Those that change nothing."""


def _has(role: str) -> frozenset[str]:
    if role == "admin":
        return frozenset(SCOPES)
    reads = {f"read:{kind.plural}" for kind in SCOPED if role in kind.readers}
    return frozenset(reads | {f"write:{kind.plural}" for kind in SCOPED if role in kind.writers})


ROLE_SCOPES: dict[str, frozenset[str]] = {role: _has(role) for role in reversed(ROLES)}


def effective(role: str, granted: frozenset[str] | None) -> frozenset[str]:
    """Give the scopes that a credential carries for a user of this role.

    `granted` is what the credential was given, where `admin` implies every scope; None is all
    that the user has. Never more than the role has.
    """
    of_role = ROLE_SCOPES[role]
    if granted is None or "admin" in granted:
        return of_role
    return of_role & granted
