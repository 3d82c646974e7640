"""The permission model: the scopes of a role, and which of them a credential carries.

What the installation adds to Portico's own (kinds of resources, services, roles) is added when it
starts, before it serves anything. The containers below are changed in place, so that whoever holds
one has what was added.
"""

from collections.abc import Collection

from portico.core.resources import RESOURCES, SCOPED, Resource
from portico.core.words import ROLES as BUILT_IN

_ADMIN = "admin"

VERIFY = "verify"
"""The scope of services that ask whether others' credentials are valid. Only `admin` has it."""


class Permissions:
    """The scopes of this installation, and which of them each role has."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        """What each scope permits, the least powerful ones first."""
        self.scopes: list[str] = []
        """All scopes, in the same order."""
        self.reading: set[str] = set()
        """The scopes that permit no changes."""
        self.of_role: dict[str, frozenset[str]] = {}
        """The scopes of each role, the least powerful role first."""
        self.roles: list[str] = []
        """All roles, the most powerful one first, then those of the installation."""
        self.resources: list[Resource] = []
        """The kinds of resources that were added."""
        self.only_built_in()

    def only_built_in(self) -> None:
        """Removes all that was added."""
        for added in self.resources:
            RESOURCES.remove(added)
            SCOPED.remove(added)
        for container in (self.words, self.scopes, self.reading, self.of_role, self.resources):
            container.clear()
        self.roles[:] = BUILT_IN
        self.of_role.update((role, frozenset()) for role in reversed(BUILT_IN))
        self.add(_ADMIN, "Administer everything: plans, keys, clients and the audit log")
        self.add(VERIFY, "Ask whose credentials are valid, and count their requests")
        for resource in SCOPED:
            self._scopes_of(resource)

    def add(
        self, scope: str, words: str, roles: Collection[str] = (), *, reads: bool = False
    ) -> None:
        """Adds a scope that `admin` and these roles have. `words` are those of the consent page;
        `reads` says that it permits no changes. Raises `ValueError` if it exists."""
        if scope in self.words:
            raise ValueError(f"The scope {scope} exists.")
        last = {one: self.words.pop(one) for one in (VERIFY, _ADMIN) if one in self.words}
        self.words[scope] = words
        self.words.update(last)  # the most powerful ones stay the last
        self.scopes[:] = self.words
        if reads:
            self.reading.add(scope)
        for role, has in self.of_role.items():
            if role == _ADMIN or role in roles:
                self.of_role[role] = has | {scope}

    def add_resource(self, resource: Resource) -> None:
        """Adds a kind of resource with its two scopes. Raises `ValueError` if one exists."""
        self._scopes_of(resource)
        RESOURCES.append(resource)
        SCOPED.append(resource)
        self.resources.append(resource)

    def add_role(self, role: str, scopes: Collection[str]) -> None:
        """Adds a role with these scopes. Raises `ValueError` if it exists."""
        if role in self.of_role:
            raise ValueError(f"The role {role} exists.")
        self.of_role[role] = frozenset(scopes)
        self.roles.append(role)

    def _scopes_of(self, kind: Resource) -> None:
        self.add(f"read:{kind.plural}", kind.see, kind.readers, reads=True)
        self.add(f"write:{kind.plural}", kind.change, kind.writers)


PERMISSIONS = Permissions()
"""Those of this process, which serves one installation."""

SCOPE_WORDS = PERMISSIONS.words
SCOPES = PERMISSIONS.scopes
ROLES = PERMISSIONS.roles
READ_SCOPES = PERMISSIONS.reading
ROLE_SCOPES = PERMISSIONS.of_role


def of_role(role: str) -> frozenset[str]:
    """The scopes of a role; none for one that the settings no longer have."""
    return ROLE_SCOPES.get(role, frozenset())


def effective(role: str, granted: frozenset[str] | None) -> frozenset[str]:
    """The scopes that a credential carries for a user with this role, never more than the role has.

    `granted` are the credential's own, of which `admin` implies every scope; None means all.
    """
    has = of_role(role)
    return has if granted is None or _ADMIN in granted else has & granted
