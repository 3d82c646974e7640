"""The permission model: what a role has, and what a credential passes on of it."""

SCOPES = ("read:users", "write:users", "read:products", "write:products", "admin")

ROLE_SCOPES: dict[str, frozenset[str]] = {
    "viewer": frozenset({"read:users", "read:products"}),
    "editor": frozenset({"read:users", "read:products", "write:products"}),
    "admin": frozenset(SCOPES),
}


def effective(role: str, granted: frozenset[str] | None) -> frozenset[str]:
    """Give the scopes that a credential carries for a user of this role.

    `granted` is what the credential was given, where `admin` implies every scope; None is all
    that the user has. Never more than the role has.
    """
    of_role = ROLE_SCOPES[role]
    if granted is None or "admin" in granted:
        return of_role
    return of_role & granted
