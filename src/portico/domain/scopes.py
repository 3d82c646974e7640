"""The permission model: the scopes of a role, and which of them a credential carries."""

from portico.domain.resources import SCOPED
from portico.domain.words import ROLES

SCOPE_WORDS: dict[str, str] = {
    f"{deed}:{kind.plural}": words
    for kind in SCOPED
    for deed, words in (("read", kind.see), ("write", kind.change))
} | {"admin": "Administer everything: plans, keys, clients and the audit log"}
"""What each scope permits, the least powerful ones first."""

SCOPES = tuple(SCOPE_WORDS)

READ_SCOPES = frozenset(f"read:{kind.plural}" for kind in SCOPED)
"""The scopes that permit no changes."""


def _has(role: str) -> frozenset[str]:
    if role == "admin":
        return frozenset(SCOPES)
    reads = {f"read:{kind.plural}" for kind in SCOPED if role in kind.readers}
    return frozenset(reads | {f"write:{kind.plural}" for kind in SCOPED if role in kind.writers})


ROLE_SCOPES: dict[str, frozenset[str]] = {role: _has(role) for role in reversed(ROLES)}


def effective(role: str, granted: frozenset[str] | None) -> frozenset[str]:
    """The scopes that a credential carries for a user with this role, never more than the role has.

    `granted` are the credential's own, of which `admin` implies every scope; None means all.
    """
    of_role = ROLE_SCOPES[role]
    if granted is None or "admin" in granted:
        return of_role
    return of_role & granted
