"""Routes are data: one declaration an endpoint says everything that the pipeline must know.

Dispatch, access, validation and the OpenAPI document all come from it.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any

import msgspec

from portico.domain.errors import PorticoError
from portico.domain.scopes import SCOPES
from portico.http.messages import Reply, Request

ID = "{id}"

Handler = Callable[[Request], Awaitable[Reply]]


class Access(Enum):
    """Who may call a route that needs no scope."""

    ANYONE = "anyone"
    """Without a credential; counted against the client's address."""
    ANY_CALLER = "any caller"
    """With any valid credential."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint. `path` is relative to its base and may end in `/{id}`.

    `access` is a scope or an `Access`: a route cannot be declared without saying who may call it.
    `answer` is the shape of a success's body, None for an empty one.
    """

    method: str
    path: str
    handler: Handler
    access: str | Access
    summary: str
    description: str = ""
    status: int = 200
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    answer: Any = None
    errors: Sequence[type[PorticoError]] = ()
    location: bool = False
    """Whether a success carries `Location`."""
    conditional: bool = False
    """Whether it honours `If-Match`."""

    def __post_init__(self) -> None:
        if not isinstance(self.access, Access) and self.access not in SCOPES:
            raise ValueError(f"{self.method} {self.path}: {self.access} is no scope.")
        if "{" in self.path.removesuffix(f"/{ID}"):
            raise ValueError(f"{self.path}: only the last part of a path can be a parameter.")

    @property
    def scope(self) -> str | None:
        """The scope that a caller needs, if any."""
        return None if isinstance(self.access, Access) else self.access


class Endpoint:
    """A route where it is mounted, ready for the pipeline."""

    __slots__ = ("body", "environment", "handler", "path", "public", "query", "route", "scope")

    def __init__(self, route: Route, environment: str, path: str) -> None:
        """`environment` and `path`, the pattern with its version, name the endpoint in metrics."""
        self.route = route
        self.environment = environment
        self.path = path
        self.handler = route.handler
        self.scope = route.scope
        self.public = route.access is Access.ANYONE
        self.query = route.query
        self.body = route.body


Methods = dict[str, Endpoint]


class Mounted(msgspec.Struct, frozen=True):
    """Where a path leads: the environment, the methods there (None: nowhere), the id's text."""

    environment: Any
    methods: Methods | None
    id_text: str | None
    extra_headers: Sequence[tuple[str, str]] = ()


class _Place(msgspec.Struct, frozen=True):
    environment: Any
    methods: Methods
    extra_headers: Sequence[tuple[str, str]]


class Mount(msgspec.Struct, frozen=True):
    """Routes at a base address: `host` (with port where it is not 443) and path `prefix`.

    `name` is the version. `extra_headers` stand on every response: a superseded version's
    `Deprecation` and `Sunset`.
    """

    host: str
    prefix: str
    environment: Any
    routes: Sequence[Route]
    name: str
    extra_headers: Sequence[tuple[str, str]] = ()


class Router:
    """Finds the route of a path by dictionary look-ups alone."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        """The first mount's environment answers for paths that belong to none."""
        self._mounts = mounts
        hosts = {mount.host for mount in mounts}
        # One host for all: its name is not looked at, so that any address of the server works.
        self._by_host = len(hosts) > 1
        self._exact: dict[tuple[str, str], _Place] = {}
        self._with_id: dict[tuple[str, str], _Place] = {}
        for mount in mounts:
            self._add(mount)

    def _add(self, mount: Mount) -> None:
        host = mount.host if self._by_host else ""
        for route in mount.routes:
            with_id = route.path.endswith(f"/{ID}")
            table = self._with_id if with_id else self._exact
            key = (host, mount.prefix + route.path.removesuffix(f"/{ID}"))
            place = table.setdefault(key, _Place(mount.environment, {}, mount.extra_headers))
            endpoint = Endpoint(route, mount.environment.name, f"/{mount.name}{route.path}")
            place.methods[route.method] = endpoint
            if route.method == "GET":
                place.methods["HEAD"] = endpoint

    def find(self, host: str, path: str) -> Mounted:
        """Where a path leads. `host` is the request's Host header."""
        if not self._by_host:
            host = ""
        place = self._exact.get((host, path))
        if place is not None:
            return Mounted(place.environment, place.methods, None, place.extra_headers)
        parent, _, last = path.rpartition("/")
        place = self._with_id.get((host, parent))
        if place is not None:
            return Mounted(place.environment, place.methods, last, place.extra_headers)
        return self._nowhere(host, path)

    def _nowhere(self, host: str, path: str) -> Mounted:
        best: Mount | None = None
        for mount in self._mounts:
            fits = not self._by_host or mount.host == host
            inside = path == mount.prefix or path.startswith(f"{mount.prefix}/")
            if fits and inside and (best is None or len(mount.prefix) > len(best.prefix)):
                best = mount
        if best is None:
            return Mounted(self._mounts[0].environment, None, None)
        return Mounted(best.environment, None, None, best.extra_headers)
