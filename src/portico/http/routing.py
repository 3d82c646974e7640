"""Routes are data: one declaration an endpoint says everything that the pipeline must know.

Dispatch, access, validation and the OpenAPI document all come from it.
"""

import itertools
import re
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from portico.domain.caller import Principal
from portico.domain.errors import PorticoError
from portico.domain.idempotency import HEADER
from portico.domain.oauth import OPENID_SCOPES
from portico.domain.scopes import SCOPES
from portico.http.cors import Cors, Sharing, Sharings
from portico.http.messages import JSON, BodyRequest, Handler, QueryRequest, Reply, Request
from portico.http.sse import EVENT_STREAM, LAST_EVENT_ID
from portico.storage.parts import Part

Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B", bound=msgspec.Struct)
F = TypeVar("F")

ID = "{id}"

ID_PART = re.compile(r"\{[a-z_]+\}")

MOST_IDS = 2
"""A resource, and one that belongs to it."""

PUBLIC_BODY_LIMIT = 16_384
"""In bytes: what anyone may send without a credential."""


class Access(Enum):
    """Who may call a route that needs no scope."""

    ANYONE = "anyone"
    """Without a credential; counted against the caller's address."""
    CLIENT = "client"
    """A client of OAuth, by its id and, unless it is public, its secret."""
    OPERATOR = "operator"
    """From an address of `metrics_allow`."""
    ANY_CALLER = "any caller"
    """With any valid credential."""
    WHOLE_CALLER = "whole caller"
    """With one that may do all that its user may."""


class AnyRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint: a `Route`, or one that reads a query or a body, which the type of its handler's
    request names. `path` is relative to its base. Up to two parts of it may be ids, as `{id}`.

    `access` is a scope or an `Access`: a route cannot be declared without saying who may call it.
    `answer` is the shape of a success's body, None for an empty one.
    """

    method: str
    path: str
    handler: Callable[[Any], Awaitable[Reply]]
    access: str | Access
    summary: str
    permit: Callable[[Principal, int], object] | None = None
    """What else refuses a caller, whatever they send: it raises `PermissionDenied` by who they are
    and the first id in the path (0: there is none) alone."""
    permit_body: Callable[[Principal, Any], object] | None = None
    """The same by what the body asks for, which it is called with."""
    description: str = ""
    status: int = 200
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    bearer_instead: ClassVar = False
    """Whether the body may be left out where an access token comes as a bearer credential."""
    form: type | None = None
    """What is read as a form: of OAuth's endpoints, which take JSON too, their parameters."""
    answer: Any = None
    errors: Sequence[type[PorticoError]] = ()
    location: bool = False
    """Whether a success carries `Location`."""
    conditional: bool = False
    """Whether it honours `If-Match`."""
    repeatable: bool = False
    """Whether it honours `Idempotency-Key`."""
    same_origin: bool = False
    """Whether a page of another site is refused, also where no cookie came with the request."""
    media: str = JSON
    """The type of a success's body."""
    no_store: bool = False
    """Whether a success carries `Cache-Control: no-store`, because it shows a secret or goes on."""
    public_seconds: int = 0
    """How long anyone, a page of another site too, may keep a success; 0: not at all."""
    never_refused: bool = False
    """Whether it is not refused, and not counted, when the quota is spent: because it ends the very
    credential that it is called with. With an API key, which it does not end, it is refused; where
    anyone may call it, it refuses by itself whoever has brought nothing that it ends."""
    sharing: Sharing = Sharing.LISTED
    """Whose pages may read its answers."""
    on_address: bool = False
    """Of a page: whether it counts against the address on the plan Free, as every endpoint of the
    authorization server that anyone may call."""
    file_bytes: int = 0
    """Of a page: how large a file its form sends at most; 0: it sends none."""
    sets_cookie: bool = False
    """Whether a success carries `Set-Cookie`."""
    shows: Callable[[Any], Part] | None = None
    """Which part of the data alone decides on the answer to a request, that is then the same for
    all who may have it and is kept; None: it is not."""

    def __post_init__(self) -> None:
        if not isinstance(self.access, Access) and self.access not in (*SCOPES, *OPENID_SCOPES):
            raise ValueError(f"{self.method} {self.path}: {self.access} is no scope.")
        if self.path.count("{") != len(self.ids) or len(self.ids) > MOST_IDS:
            raise ValueError(f"{self.path}: up to {MOST_IDS} whole parts of a path can be ids.")
        asked = self.scope or self.access in (Access.ANY_CALLER, Access.WHOLE_CALLER)
        if self.permit and (self.shows or not asked):
            raise ValueError(f"{self.method} {self.path}: nothing would ask what it permits.")
        if self.shows and not (self.tagged and self.status == 200):
            raise ValueError(f"{self.method} {self.path}: its answers cannot be kept.")

    @property
    def scope(self) -> str | None:
        """The scope that a caller needs, if any."""
        return None if isinstance(self.access, Access) else self.access

    @property
    def ids(self) -> Sequence[str]:
        """The names of the ids in its path."""
        return _ids_in(self.path)

    @property
    def tagged(self) -> bool:
        """Whether a success carries an entity tag."""
        return self.method == "GET" and not self.cache_control

    @property
    def cache_control(self) -> str:
        """The `Cache-Control` of a success; empty where it has none, or that of a tagged one."""
        if self.no_store:
            return "no-store"
        return f"public, max-age={self.public_seconds}" if self.public_seconds else ""


@cache  # paths are few, and asked about again and again while a server starts
def _ids_in(path: str) -> Sequence[str]:
    return tuple(part[1:-1] for part in path.split("/") if ID_PART.fullmatch(part))


class Route(AnyRoute, frozen=True, kw_only=True):
    """One that reads neither query nor body."""

    handler: Handler
    shows: Callable[[Request], Part] | None = None


class QueryRoute(AnyRoute, Generic[Q], frozen=True, kw_only=True):
    """One that reads its query."""

    handler: Callable[[QueryRequest[Q]], Awaitable[Reply]]
    query: type[Q]
    shows: Callable[[QueryRequest[Q]], Part] | None = None


class BodyRoute(AnyRoute, Generic[B], frozen=True, kw_only=True):
    """One that reads a JSON body."""

    handler: Callable[[BodyRequest[B]], Awaitable[Reply]]
    body: type[B]
    permit_body: Callable[[Principal, B], object] | None = None


class BodyOrBearerRoute(AnyRoute, Generic[B], frozen=True, kw_only=True):
    """One that reads a JSON body, or takes a bearer credential instead: then the body is None."""

    handler: Callable[[BodyRequest[B | None]], Awaitable[Reply]]
    body: type[B]
    bearer_instead: ClassVar = True


class FormRoute(AnyRoute, Generic[F], frozen=True, kw_only=True):
    """One that reads a form."""

    handler: Callable[[BodyRequest[F]], Awaitable[Reply]]
    form: type[F]


def _taken_headers(route: AnyRoute) -> tuple[str, ...]:
    """The headers that it reads and that pages may not send unasked (Fetch §2.2.2)."""
    taken = {
        "Authorization": route.access is not Access.ANYONE or route.bearer_instead,
        "Content-Type": route.body is not None or route.form is not None,
        HEADER: route.repeatable,
        "If-Match": route.conditional,
        "If-None-Match": route.tagged,
        LAST_EVENT_ID: route.media == EVENT_STREAM,
    }
    return tuple(name for name, is_taken in taken.items() if is_taken)


_numbers = itertools.count()


class Endpoint:
    """A route where it is mounted, ready for the pipeline."""

    __slots__ = (
        "body",
        "cache_control",
        "environment",
        "handler",
        "ids",
        "media",
        "name",
        "never_refused",
        "number",
        "path",
        "permit",
        "public",
        "query",
        "route",
        "scope",
        "shows",
        "whole",
    )

    def __init__(self, route: AnyRoute, environment: str, path: str) -> None:
        """`environment` and `path`, the pattern with its version, name the endpoint in metrics."""
        self.number = next(_numbers)
        """Its own among all endpoints of this process."""
        self.route = route
        self.environment = environment
        self.path = path
        self.name = f"{route.method} {path}"
        self.handler = route.handler
        self.ids = route.ids
        self.scope = route.scope
        self.permit = route.permit
        self.public = route.access is Access.ANYONE
        self.whole = route.access is Access.WHOLE_CALLER
        self.cache_control = route.cache_control
        self.media = route.media
        self.never_refused = route.never_refused
        self.query = route.query
        self.body = route.body
        self.shows = route.shows


Methods = dict[str, Endpoint]


class PathMatch(msgspec.Struct, frozen=True):
    """What the path of a request leads to, whatever its method. One is made for each path when the
    server starts, and serves every request to it.

    `methods` are the endpoints by HTTP method, and empty where the path leads nowhere. `cors` says
    which origins may read the answers: None where no other origin may. `extra_headers` are on
    every response.
    """

    environment: Any
    responder: "Responder"
    methods: Methods
    cors: Cors | None
    extra_headers: Sequence[tuple[str, str]] = ()

    @property
    def taken_headers(self) -> frozenset[str]:
        """The headers that a page must be allowed to send there."""
        return frozenset(
            name for known in self.methods.values() for name in _taken_headers(known.route)
        )

    @property
    def is_public(self) -> bool:
        """Whether there is something, all of which is asked for without a credential."""
        return bool(self.methods) and all(known.public for known in self.methods.values())


class Responder(Protocol):
    """How the requests of a mount are answered: as an API, as OAuth, as pages."""

    def serves(self, access: str | Access) -> bool:
        """Whether it can tell who calls a route of this access: no other is mounted on it."""
        ...

    async def answer(
        self, request: Request, match: PathMatch, endpoint: Endpoint | None, id_texts: Sequence[str]
    ) -> Reply:
        """The reply to a request that was routed; `id_texts` are the ids in its path, unread.
        Raises `PorticoError`."""
        ...

    def problem(self, request: Request, error: PorticoError) -> Reply:
        """An error as a reply."""
        ...


class Mount(msgspec.Struct, frozen=True):
    """Routes at a base address: `host` (with port where it is not 443) and path `prefix`.

    What has no host is at every one, and what has no environment belongs to none. `name` is the
    version, or what stands in its place. `extra_headers` stand on every response: a superseded
    version's `Deprecation` and `Sunset`. `cors` are the origins of each `Sharing` that it knows.
    """

    host: str
    prefix: str
    environment: Any
    routes: Sequence[AnyRoute]
    name: str
    responder: Responder
    extra_headers: Sequence[tuple[str, str]] = ()
    cors: Sharings = {}
