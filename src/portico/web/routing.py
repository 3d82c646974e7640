"""Routes are data: one declaration per endpoint holds everything that the pipeline must know.

Dispatch, access checks, validation and the OpenAPI document all read it. A `Route` is declared in
`api` or `pages`, a `Mount` puts routes at an address, and `Router` makes an `Endpoint` for each
route and a `PathMatch` for each path.
"""

import itertools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import format_datetime
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from portico.core.audit import HEADER
from portico.core.caller import Principal
from portico.core.errors import Fault, PorticoError
from portico.core.oauth import OPENID_SCOPES
from portico.core.resources import SCOPED
from portico.core.scopes import SCOPES
from portico.data.database import Dependency
from portico.web.cors import Cors, Sharing, Sharings
from portico.web.messages import JSON, BodyRequest, Handler, QueryRequest, Reply, Request
from portico.web.reading import MOST_VALUES
from portico.web.streams import EVENT_STREAM, LAST_EVENT_ID

Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B", bound=msgspec.Struct)
F = TypeVar("F")

FurtherFaults = Callable[[Request, Mapping[str, Any]], Awaitable[Sequence[Fault]]]
"""The further faults of a body, by the values of its fields; that of a faulty one is None."""

ID = "{id}"

ID_PART = re.compile(r"\{[a-z_]+\}")

MOST_IDS = 2
"""The most ids in one path: a resource's, and that of a resource which belongs to it."""

PUBLIC_BODY_LIMIT = 16_384
"""The largest body of a request without a credential, in bytes."""


class Access(Enum):
    """Who may call a route that needs no scope."""

    ANYONE = "anyone"
    """No credential; counted against the caller's address."""
    CLIENT = "client"
    """An OAuth client, by its id and, unless it is public, its secret."""
    OPERATOR = "operator"
    """Anyone from an address in the setting `metrics_allow`."""
    ANY_CALLER = "any caller"
    """Any valid credential."""
    WHOLE_CALLER = "whole caller"
    """A credential that carries every scope of its user, and is no OAuth token."""


class AnyRoute(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of one endpoint. Declare routes by a subclass: `Route` reads neither query
    nor body, the others read what their name says, and mypy checks the handler against that.

    `path` is relative to the mount's prefix; up to two of its segments may be ids, as `{id}`.
    `access` is a scope or an `Access`, without a default. `summary` and `description` go into the
    OpenAPI document. `status` and `answer` describe a success: `answer` is the shape of the body,
    None for an empty one. `errors` are those that the handler may raise.
    """

    method: str
    path: str
    handler: Callable[[Any], Awaitable[Reply]]
    access: str | Access
    summary: str
    named: bool = False
    """Whether the id in its path is a text, `resource_name`, rather than a number."""
    permit: Callable[[Principal, int], object] | None = None
    """A check beyond the scope. It is called with the caller and the first id in the path (0
    without one), before anything else is read, and raises `PermissionDenied`."""
    permit_body: Callable[[Principal, Any], object] | None = None
    """As `permit`, but called with the caller and the body, once the body is read."""
    further_faults: FurtherFaults | None = None
    """The faults of a body that depend on settings or on what is stored. It is called for a body
    that is refused for others, so that all are reported at once; the handler checks them too."""
    description: str = ""
    status: int = 200
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    most_values: int = MOST_VALUES
    """The most values in a large body."""
    bearer_instead: ClassVar = False
    """Whether a bearer credential may be sent instead of the body."""
    form: type | None = None
    """The shape of a form. OAuth endpoints also accept these parameters as JSON."""
    answer: Any = None
    errors: Sequence[type[PorticoError]] = ()
    location: bool = False
    """Whether a success has the header `Location`."""
    conditional: bool = False
    """Whether it honours `If-Match` (412)."""
    repeatable: bool = False
    """Whether it honours `Idempotency-Key`."""
    same_origin: bool = False
    """Whether requests from pages of other sites are refused even without a cookie."""
    media: str = JSON
    """The media type of the body of a success."""
    no_store: bool = False
    """Whether a success has `Cache-Control: no-store`, because it shows a secret or is a stream."""
    public_seconds: int = 0
    """How many seconds shared caches may keep a success (`Cache-Control: public`); 0: none."""
    never_refused: bool = False
    """Whether the request is still answered, uncounted, when the limit is reached, because it ends
    the credential that it is called with. An API key is not ended, so it is refused as usual. A
    route open to `Access.ANYONE` must itself refuse requests that end no credential."""
    token_in_form: bool = False
    """Whether the access token may be sent as `access_token` in a form (RFC 6750 §2.2)."""
    uncounted: bool = False
    """Whether a caller with the route's scope, inside its key's networks, may make any number of
    requests to it, since each counts against whomever it is about."""
    sharing: Sharing = Sharing.LISTED
    """Which origins may read its answers (CORS)."""
    on_address: bool = False
    """Only for pages: whether requests count against the client's address, by the limits of the
    plan Free, as for all public endpoints of the authorization server."""
    file_bytes: int = 0
    """Only for pages: the largest file that the form may upload, in bytes; 0: no files."""
    sets_cookie: bool = False
    """Whether a success has `Set-Cookie`."""
    shows: Callable[[Any], Dependency] | None = None
    """Returns the one part of the data that the answer depends on. The answer must then be the same
    for every permitted caller, and is kept (`web/representations.py`). None: it is not kept."""

    def __post_init__(self) -> None:
        if not isinstance(self.access, Access) and self.access not in (*SCOPES, *OPENID_SCOPES):
            raise ValueError(f"{self.method} {self.path}: {self.access} is not a scope.")
        if self.path.count("{") != len(self.ids) or len(self.ids) > MOST_IDS:
            raise ValueError(f"{self.path}: at most {MOST_IDS} whole segments can be ids.")
        asked = self.scope or self.access in (Access.ANY_CALLER, Access.WHOLE_CALLER)
        if self.permit and (self.shows or not asked):
            raise ValueError(f"{self.method} {self.path}: its `permit` would never be called.")
        if self.shows and not (self.tagged and self.status == 200):
            raise ValueError(f"{self.method} {self.path}: only a tagged GET can have `shows`.")

    @property
    def scope(self) -> str | None:
        """The scope that the caller needs, if any."""
        return None if isinstance(self.access, Access) else self.access

    @property
    def reads(self) -> str | None:
        """The scope of reading what a PATCH changes and answers with; None for other routes. Who
        lacks it gets only the id and the fields that they sent; the scope `admin` implies it."""
        if self.method != "PATCH" or not self.ids or self.access == "admin":
            return None
        first = self.path.split("/")[1]
        return next((f"read:{kind.plural}" for kind in SCOPED if kind.path == first), None)

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
        """The `Cache-Control` of a success; empty where the route declares none."""
        if self.no_store:
            return "no-store"
        return f"public, max-age={self.public_seconds}" if self.public_seconds else ""


@cache  # there are few paths, and each start asks for every one many times
def _ids_in(path: str) -> Sequence[str]:
    return tuple(part[1:-1] for part in path.split("/") if ID_PART.fullmatch(part))


class Route(AnyRoute, frozen=True, kw_only=True):
    """A route that reads neither query nor body."""

    handler: Handler
    shows: Callable[[Request], Dependency] | None = None


class QueryRoute(AnyRoute, Generic[Q], frozen=True, kw_only=True):
    """A route that reads its query."""

    handler: Callable[[QueryRequest[Q]], Awaitable[Reply]]
    query: type[Q]
    shows: Callable[[QueryRequest[Q]], Dependency] | None = None


class BodyRoute(AnyRoute, Generic[B], frozen=True, kw_only=True):
    """A route that reads a JSON body."""

    handler: Callable[[BodyRequest[B]], Awaitable[Reply]]
    body: type[B]
    permit_body: Callable[[Principal, B], object] | None = None


class BodyOrBearerRoute(AnyRoute, Generic[B], frozen=True, kw_only=True):
    """A route that reads a JSON body or takes a bearer credential instead; the body is then
    None."""

    handler: Callable[[BodyRequest[B | None]], Awaitable[Reply]]
    body: type[B]
    bearer_instead: ClassVar = True


class FormRoute(AnyRoute, Generic[F], frozen=True, kw_only=True):
    """A route that reads a form."""

    handler: Callable[[BodyRequest[F]], Awaitable[Reply]]
    form: type[F]


def _taken_headers(route: AnyRoute) -> tuple[str, ...]:
    """The headers that the route reads and that pages of other origins may send only if allowed
    (Fetch §2.2.2)."""
    taken = {
        "Authorization": route.access is not Access.ANYONE or route.bearer_instead,
        "Content-Type": route.body is not None or route.form is not None,
        HEADER: route.repeatable,
        "If-Match": route.conditional or route.tagged,
        "If-None-Match": route.conditional or route.tagged,
        LAST_EVENT_ID: route.media == EVENT_STREAM,
    }
    return tuple(name for name, is_taken in taken.items() if is_taken)


_numbers = itertools.count()


class Endpoint:
    """A mounted route. It copies what every request needs, so that each value is one attribute
    look-up."""

    def __init__(self, route: AnyRoute, environment: str, path: str) -> None:
        """`environment` is the environment's name, `path` the pattern after the version, such as
        `/v1/products/{id}`. Both label the endpoint in metrics."""
        self.number = next(_numbers)
        """Unique among the endpoints of this process."""
        self.route = route
        self.environment = environment
        self.path = path
        self.name = f"{route.method} {path}"
        self.handler = route.handler
        self.ids = route.ids
        self.scope = route.scope
        self.reads = route.reads
        self.permit = route.permit
        self.public = route.access is Access.ANYONE
        self.whole = route.access is Access.WHOLE_CALLER
        self.cache_control = route.cache_control
        self.media = route.media
        self.never_refused = route.never_refused
        self.uncounted = route.uncounted
        self.query = route.query
        self.body = route.body
        self.shows = route.shows


Methods = dict[str, Endpoint]


class PathMatch(msgspec.Struct, frozen=True):
    """The environment, responder and endpoints of a path. One is made for each path when the server
    starts, and serves every request to it.

    `methods` has the endpoints by HTTP method; it is empty for an unknown path. `cors` says which
    other origins may read the answers: None if none may. `extra_headers` are on every response.
    """

    environment: Any
    responder: "Responder"
    methods: Methods
    cors: Cors | None
    extra_headers: Sequence[tuple[str, str]] = ()

    @property
    def taken_headers(self) -> frozenset[str]:
        """The request headers that CORS must allow for pages of other origins."""
        return frozenset(
            name for known in self.methods.values() for name in _taken_headers(known.route)
        )

    @property
    def is_public(self) -> bool:
        """Whether the path has routes, and none of them needs a credential."""
        return bool(self.methods) and all(known.public for known in self.methods.values())


class Responder(Protocol):
    """Answers the requests of a mount: as an API, as OAuth endpoints, as pages."""

    def serves(self, access: str | Access) -> bool:
        """Whether it can check this access. Routes with any other cannot be mounted on it."""
        ...

    async def answer(
        self, request: Request, match: PathMatch, endpoint: Endpoint | None, id_texts: Sequence[str]
    ) -> Reply:
        """The reply to a request. `endpoint` is None if the path has none for the method;
        `id_texts` are the ids in the path as the client sent them. Raises `PorticoError`."""
        ...

    def problem(self, request: Request, error: PorticoError) -> Reply:
        """The reply to an error."""
        ...


class Mount(msgspec.Struct, frozen=True):
    """Routes at an address: `host` (with the port unless that is 443) and path `prefix`.

    An empty `host` means every host; `environment` is None if the routes belong to none. `name`
    is the API version, or another label for metrics. `extra_headers` are on every response, such as
    `Deprecation` and `Sunset` of a superseded version. `cors` has the allowed origins by `Sharing`.
    """

    host: str
    prefix: str
    environment: Any
    routes: Sequence[AnyRoute]
    name: str
    responder: Responder
    extra_headers: Sequence[tuple[str, str]] = ()
    cors: Sharings = {}


SUPERSEDED_FOR = timedelta(days=366)
"""How long a superseded version is served at least: twelve months, even in a leap year."""


def superseded(since: datetime, until: datetime, successor: str) -> tuple[tuple[str, str], ...]:
    """The `extra_headers` of a mount whose version has a successor.

    It is deprecated from `since` (RFC 9745) and ends at `until` (RFC 8594), both in UTC;
    `successor` is the base address of the version that replaces it (RFC 5829). Raises ValueError
    if the two are less than `SUPERSEDED_FOR` apart.
    """
    if until - since < SUPERSEDED_FOR:
        raise ValueError(f"a superseded version answers for {SUPERSEDED_FOR.days} days at least")
    return (
        ("deprecation", f"@{int(since.timestamp())}"),
        ("sunset", format_datetime(until, usegmt=True)),
        ("link", f'<{successor}>; rel="successor-version"'),
    )
