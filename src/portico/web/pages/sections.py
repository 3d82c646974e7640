"""The sections of the dashboard, as its menu and its search name them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from portico.core.scopes import of_role
from portico.core.users import User
from portico.environment import Environment


class Section(NamedTuple):
    """A section: its name, its icon, and the scope that opens it, empty for everybody's."""

    name: str
    icon: str
    scope: str = ""


_ENVIRONMENT = {
    "": Section("Overview", "overview"),
    "/products": Section("Products", "product", "read:products"),
    "/users": Section("Users", "users", "admin"),
    "/keys": Section("API keys", "key"),
    "/applications": Section("Applications", "applications"),
    "/requests": Section("Requests", "requests"),
    "/events": Section("Events", "events"),
    "/clients": Section("OAuth clients", "client", "admin"),
    "/webhooks": Section("Webhooks", "webhook", "admin"),
    "/audit": Section("Audit log", "audit", "admin"),
}
_ACCOUNT = {
    "/profile": Section("Profile", "profile"),
    "/security": Section("Sign-in security", "security"),
    "/devices": Section("Devices", "devices"),
}


def _kinds(records: Any) -> Iterator[tuple[str, Section]]:
    for one in records:
        kind = one.kind
        yield kind.path, Section(kind.kind.title, "record", kind.reads)


def sections_of(env: Environment, user: User | None) -> Mapping[str, Mapping[str, Section]]:
    """The sections that a user may open, by path: those of the environment, of the installation's
    own kinds (`records`), and of the account."""
    scopes = {"", *of_role(user.role)} if user else {""}
    groups = {
        "environment": _ENVIRONMENT,
        "records": dict(_kinds(env.records)),
        "account": _ACCOUNT,
    }
    return {
        group: {path: one for path, one in sections.items() if one.scope in scopes}
        for group, sections in groups.items()
    }
