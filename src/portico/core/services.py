"""Services of the team: what `portico.toml` declares of them, and which rule decides on a request.

The path of a request is always the rest behind the service's own path, percent-encoded. A rest that
two servers could read differently is refused, so that what was decided is what is sent.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from portico.core.errors import BrokenRule, PermissionDenied, Unreadable
from portico.core.plans import Plan
from portico.core.resources import RESOURCES
from portico.core.scopes import Permissions

ANYBODY = "any"
"""The scope of a rule that admits every valid credential."""
PUBLIC = "public"
"""The scope of a rule that asks for no credential."""

RESERVED = frozenset(
    {"docs", "openapi.json", "mcp", "plans", "invitations", "clients", "audit", "usage", "kinds"}
)
"""First segments of paths that Portico has or will have, beside those of resources."""

MOST_COST = 1000
MIB = 1 << 20

_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)+")
"""RFC 3986 §3.3, `path-abempty`, without an empty one."""

_QUERY = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")

_AMBIGUOUS = re.compile(r"/(?:\.|%2e){1,2}(?=/|;|%3b|$)|%2f|%5c|%00", re.IGNORECASE)
"""Dot segments, those with parameters included, encoded slashes and backslashes, and NUL."""


def checked_path(path: str) -> str:
    """A path as it is decided on and sent on. Raises `Unreadable` for one that servers read
    differently."""
    if _PATH.fullmatch(path) is None:
        raise Unreadable("The path must begin with / and have only the characters of RFC 3986.")
    if _AMBIGUOUS.search(path):
        raise Unreadable("The path must have no dot segments and no encoded slashes.")
    return path


def path_of(target: str) -> str:
    """The path of a target such as `/a?b`, which `Service.rule` checks. Raises `Unreadable` for a
    faulty query."""
    path, _, query = target.partition("?")
    if query and _QUERY.fullmatch(query) is None:
        raise Unreadable("The query must have only the characters of RFC 3986.")
    return path


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Who may do what at the paths that `path` matches: `*` is one segment, `**` any rest.

    `methods` is empty for all; `scope` may also be `ANYBODY` or `PUBLIC`. `limit` names a limit,
    `cost` is what a request takes from the plan.
    """

    methods: frozenset[str] = frozenset()
    path: str
    scope: str
    limit: str | None = None
    cost: int = 1

    def matches(self, method: str, segments: Sequence[str]) -> bool:
        """Whether the rule is about this method and these segments of a path, decoded."""
        if self.methods and method not in self.methods:
            return False
        wanted = _pattern(self.path)
        if wanted[-1] == "**":
            if len(wanted) == 1:
                return True
            wanted = wanted[:-1]
            segments = segments[: len(wanted)] if segments[0] or len(segments) > 1 else ()
        return len(wanted) == len(segments) and all(
            (one == "*" and bool(other)) or one == other
            for one, other in zip(wanted, segments, strict=True)
        )


@cache
def _pattern(path: str) -> Sequence[str]:
    """The segments of a rule's path."""
    return path[1:].split("/")


class ServiceScope(msgspec.Struct, frozen=True):
    """A scope that a service declares: what it permits, and the roles that have it beside
    `admin`."""

    about: str
    roles: tuple[str, ...]


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service of the team. `path` is None unless Portico forwards to `upstream`, or in the
    sandbox to `sandbox_upstream`."""

    name: str
    audience: str | None = None
    """What tokens for it name, in both environments; None: its address in each."""
    path: str | None = None
    upstream: str | None = None
    sandbox_upstream: str | None = None
    timeout_seconds: int = 30
    max_body: int = 100 * MIB
    token_seconds: int = 3600
    """How long an OAuth token for it is valid."""
    scopes: Mapping[str, ServiceScope] = {}
    rules: tuple[Rule, ...] = ()
    openapi: Mapping[str, Any] | None = None
    """Its OpenAPI document, which the reference shows."""

    def audience_at(self, base: str) -> str:
        """What tokens for it name, in the environment whose API has this address."""
        return self.audience or f"{base}/{self.name}"

    def names_at(self, base: str) -> set[str]:
        """By what clients may ask for a token for it there: its audience, and its address if it has
        one."""
        return {self.audience_at(base), *([base + self.path] if self.path else [])}

    def rule(self, method: str, path: str) -> Rule:
        """The first rule that matches. Raises `PermissionDenied` if there is none, and `Unreadable`
        as `checked_path`."""
        *parts, last = checked_path(path)[1:].split("/")
        # Many servers take `//` for `/`: a rule about what they serve then must decide.
        segments = [_decoded(part) for part in (*filter(None, parts), last)]
        for rule in self.rules:
            if rule.matches(method, segments):
                return rule
        raise PermissionDenied(f"No rule of {self.name} admits {method} at this path.")


def _decoded(segment: str) -> str:
    """A segment as text, so that `%61` cannot evade a rule about `a`."""
    if "%" not in segment:
        return segment
    return re.sub(
        rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), segment.encode()
    ).decode("utf-8", "surrogateescape")


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the team declares beside Portico's own."""

    services: Mapping[str, Service] = {}
    limits: Mapping[str, Plan] = {}
    """The named limits, counted for each account beside its plan."""
    roles: Mapping[str, frozenset[str]] = {}
    """The scopes of the team's own roles."""


NOTHING = Services()


class Needed(msgspec.Struct, frozen=True):
    """What a caller needs for one request, and what it takes from them. Without `scopes` every
    valid credential will do; with `refused`, the reason, none will. If it is `public`, nobody is
    asked."""

    scopes: tuple[str, ...] = ()
    limit: str | None = None
    cost: int = 1
    refused: str = ""
    public: bool = False


def needed_by(rule: Rule) -> Needed:
    """What a rule needs."""
    if rule.scope == PUBLIC:
        return Needed(cost=rule.cost, public=True)
    return Needed(() if rule.scope == ANYBODY else (rule.scope,), rule.limit, rule.cost)


def declare(permissions: Permissions, declared: Services) -> None:
    """Adds the scopes and roles of services to those of this process; then call `check_scopes`.
    Raises `BrokenRule` for a scope that exists already."""
    for role in declared.roles:
        permissions.add_role(role, ())
    for service in declared.services.values():
        for scope, one in service.scopes.items():
            if scope in permissions.words:
                raise BrokenRule(f"services.{service.name}.scopes: {scope} exists already")
            permissions.add(scope, one.about, one.roles, reads=scope.startswith("read:"))


def check_scopes(permissions: Permissions, declared: Services) -> None:
    """Gives the team's roles their scopes, once every scope is declared. Raises `BrokenRule` for
    one that is named and does not exist."""
    for role, scopes in declared.roles.items():
        for scope in sorted(scopes - permissions.words.keys()):
            raise BrokenRule(f"roles.{role}.scopes: there is no scope {scope}")
        permissions.of_role[role] |= scopes
    taken = {resource.path for resource in RESOURCES} | RESERVED
    for service in declared.services.values():
        if service.path is not None and service.path.split("/")[1] in taken:
            raise BrokenRule(f"services.{service.name}.path: {service.path} is Portico's own")
        for rule in service.rules:
            if rule.scope not in permissions.words and rule.scope not in (ANYBODY, PUBLIC):
                raise BrokenRule(
                    f"services.{service.name}.rules: there is no scope {rule.scope}"
                    f" ({rule.path}); it must be one, {ANYBODY} or {PUBLIC}"
                )
