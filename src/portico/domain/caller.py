"""Who calls, and whether that caller may."""

from typing import Literal

import msgspec

from portico.domain.errors import PermissionDenied
from portico.domain.networks import Admits
from portico.domain.scopes import ROLE_SCOPES, SCOPES

Held = Literal["api_key", "jwt", "oauth", "session"]
"""The kinds of credentials that callers have."""

READING_METHODS = ("GET", "HEAD")


class Principal(msgspec.Struct, frozen=True, gc=False):
    """The user behind a request, as far as the credential lets that user act.

    `scopes` are the effective ones; `read_only` allows GET and HEAD alone; `credential_id` is the
    id of the key, the session or the grant, of which `token_id` is the access token; `expires_at`
    is in epoch milliseconds.
    """

    user_id: int
    email: str
    name: str
    role: str
    plan: str
    scopes: frozenset[str]
    read_only: bool
    credential: Held
    credential_id: int
    expires_at: int | None
    token_id: int | None = None
    narrow: bool = False
    """Whether it was given some of its user's scopes, and not all that there are."""
    admits: Admits | None = None
    """Whether it may be used from an address; None: from any."""
    account_id: int | None = None
    """The account that a mirror user of the sandbox belongs to."""

    @property
    def missing(self) -> frozenset[str]:
        """The scopes that its user has, and it does not carry."""
        return ROLE_SCOPES[self.role] - self.scopes


def require_method(principal: Principal, method: str) -> None:
    """Let a request of this method pass, wherever it leads. Raises `PermissionDenied`."""
    if principal.read_only and method not in READING_METHODS:
        raise PermissionDenied(
            f"This credential is read-only: it allows GET and HEAD, not {method}. "
            "Use one that may write, such as a key that begins with sk_live_."
        )


def require_all(principal: Principal) -> None:
    """Let a request pass that needs all that its user may do. Raises `PermissionDenied`."""
    if missing := [scope for scope in SCOPES if scope in principal.missing]:
        raise PermissionDenied(
            "This needs a credential that carries all scopes of its user; this one lacks"
            f" {', '.join(missing)}.",
            scope=missing[0],
        )


def require(principal: Principal, scope: str | None, method: str) -> None:
    """Let a request of this method pass that needs `scope`; with None any caller will do, but for
    a credential that was given nothing of the API.

    Raises `PermissionDenied`, which says what is missing and what to do.
    """
    require_method(principal, method)
    if scope is None:
        if principal.narrow and principal.scopes.isdisjoint(SCOPES):
            raise PermissionDenied(
                "This credential carries no scope of the API, such as read:users. "
                "Ask for one that does.",
                scope="read:users",
            )
        return
    if scope in principal.scopes:
        return
    if scope in ROLE_SCOPES[principal.role] or scope not in SCOPES:
        raise PermissionDenied(
            f"This credential does not carry the scope {scope}. Use one that does.", scope=scope
        )
    raise PermissionDenied(
        f"This needs the scope {scope}, which the role {principal.role} does not have. "
        "Ask an administrator for a role that has it.",
        scope=scope,
    )
