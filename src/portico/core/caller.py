"""The caller of a request (`Principal`), and what they may do: by method, scope and role."""

from typing import Literal

import msgspec

from portico.core.errors import PermissionDenied
from portico.core.networks import Admits
from portico.core.scopes import SCOPES, of_role

Held = Literal["api_key", "jwt", "oauth", "session"]
"""The kinds of credentials."""

READING_METHODS = ("GET", "HEAD")


class Principal(msgspec.Struct, frozen=True, gc=False):
    """The user behind a request, as far as the credential lets that user act.

    `scopes` are the effective ones: those of the role that the credential carries. `read_only`
    allows only GET and HEAD. `credential_id` is the id of the key, session or grant; `token_id`
    that of the grant's token pair, None for keys and sessions. `expires_at` is in epoch
    milliseconds, None if the credential does not expire.
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
    """Whether the credential was limited to chosen scopes when it was created."""
    admits: Admits | None = None
    """Whether the credential may be used from an address; None: from any."""
    credential_name: str | None = None
    """The name of an API key."""
    account_id: int | None = None
    """The live account of a mirror user in the sandbox; None for other users."""
    resource: str | None = None
    """What an OAuth token is for (RFC 8707); None: the API."""
    client_id: str | None = None
    """The OAuth client that acts by the token; None for other credentials."""
    client_name: str | None = None

    def works_at(self, resource: str | None) -> bool:
        """Whether the credential is good at a resource; None: at the API. Only OAuth tokens are
        bound to one."""
        return self.credential != "oauth" or self.resource == resource

    @property
    def missing(self) -> frozenset[str]:
        """The scopes of the user's role that the credential does not carry."""
        return of_role(self.role) - self.scopes


def require_method(principal: Principal, method: str) -> None:
    """Raises `PermissionDenied` if the credential is read-only and the method writes."""
    if principal.read_only and method not in READING_METHODS:
        raise PermissionDenied(
            f"This credential is read-only: it allows GET and HEAD, not {method}. "
            "Use one that may write, such as a key that begins with sk_live_."
        )


def require_all(principal: Principal) -> None:
    """Raises `PermissionDenied` unless the credential carries every scope of its user, and for any
    OAuth token: what it made, such as a key, would outlive the grant (decisions §13)."""
    if principal.credential == "oauth":
        raise PermissionDenied(
            "An OAuth token may not do this, whatever its scopes: use an API key, a login or a"
            " session."
        )
    if missing := [scope for scope in SCOPES if scope in principal.missing]:
        raise PermissionDenied(
            "This needs a credential that carries all scopes of its user; this one lacks"
            f" {', '.join(missing)}.",
            scope=" ".join(missing),
        )


def require(principal: Principal, scope: str | None, method: str) -> None:
    """Raises `PermissionDenied` unless the caller may use this method with this scope. The error
    says what is missing and what to do.

    If `scope` is None any caller may, except one whose credential was limited to scopes outside the
    API, such as `openid`.
    """
    require_method(principal, method)
    if scope is None:
        if principal.narrow and principal.scopes.isdisjoint(SCOPES):
            raise PermissionDenied(
                "This credential carries no scope of the API, such as read:users. "
                "Request a token that does.",
                scope="read:users",
            )
        return
    if scope in principal.scopes:
        return
    if scope in of_role(principal.role) or scope not in SCOPES:
        raise PermissionDenied(
            f"This credential does not carry the scope {scope}. Use one that does.", scope=scope
        )
    raise PermissionDenied(
        f"This needs the scope {scope}, which the role {principal.role} does not have. "
        "Ask an administrator for a role that has it.",
        scope=scope,
    )


def may_read(principal: Principal, scope: str, resource_id: int) -> bool:
    """Whether the caller may read the resource with this id, of the kind that needs `scope`.
    Everybody may read their own user, as at `/users/me`."""
    own = scope == "read:users" and resource_id == principal.user_id
    return own or scope in principal.scopes
