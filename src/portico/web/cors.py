"""CORS: which origins' pages may call the API (Fetch standard §3.3).

Credentials are never allowed: a page of another origin cannot use anybody's cookie.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from portico.core.errors import PermissionDenied
from portico.core.networks import ANY
from portico.features.access.clients import PageOrigins
from portico.web.messages import Reply, Request

PREFLIGHT_SECONDS = 7_200
"""How long browsers may cache a preflight: none keeps it for more than two hours."""

EXPOSED = (
    "ETag",
    "Link",
    "Location",
    "Retry-After",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-Request-Id",
    "Idempotent-Replayed",
)
"""The response headers that pages may read beyond the safelisted ones."""

METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
HEADERS = (
    *("Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match"),
    "Last-Event-ID",
)
"""What a page may send to an unknown path."""

_EXPOSED = ("access-control-expose-headers", ", ".join(EXPOSED))
_ASKED = "access-control-request-method"
_VARY = ("vary", "Origin")

Fields = Sequence[tuple[str, str]]


class Sharing(Enum):
    """Which origins' pages may read the answers of a route."""

    LISTED = "listed"
    """The origins of the setting `cors_origins`."""
    CLIENTS = "clients"
    """Also the origins of public OAuth clients."""
    ALL = "all"
    """Every origin, for published data."""


class Cors:
    """Answers preflights and adds headers for a set of allowed origins."""

    def __init__(self, origins: Collection[str], more: PageOrigins | None = None) -> None:
        """`origins` are spelled as browsers do; `ANY` stands for all. `more` are looked up, since
        they change while the server runs."""
        self.origins = frozenset(origins)
        self._any = ANY in self.origins
        self._more = more

    async def headers(self, request: Request) -> Fields:
        """The headers of the answer to a request."""
        # With `ANY`, the headers do not depend on the request, so caches keep one answer.
        if self._any:
            return (("access-control-allow-origin", ANY), _EXPOSED)
        origin = request.header("origin")
        if origin is None or not await self._admits(origin):
            return (_VARY,)
        return (("access-control-allow-origin", origin), _EXPOSED, _VARY)

    async def preflight(
        self,
        request: Request,
        methods: Collection[str],
        headers: Collection[str],
        everywhere: Collection[str] = (),
    ) -> Reply:
        """The answer to a preflight (Fetch §4.8) for the methods of a path and the headers that
        they take; `everywhere` are headers that every path takes. Raises `PermissionDenied`."""
        origin = request.header("origin") or ""
        if not self._any and not await self._admits(origin):
            raise PermissionDenied(
                "Pages of this origin may not call this; an operator can add it to cors_origins."
            )
        taken = headers if methods else HEADERS
        fields = [
            ("access-control-allow-origin", ANY if self._any else origin),
            # An unknown path allows everything, so that the page can read the 404.
            ("access-control-allow-methods", ", ".join(sorted(methods or METHODS))),
            ("access-control-allow-headers", ", ".join(sorted({*taken, *everywhere}))),
            ("access-control-max-age", str(PREFLIGHT_SECONDS)),
        ]
        return Reply(204, b"", fields if self._any else [*fields, _VARY])

    async def _admits(self, origin: str) -> bool:
        if origin in self.origins:
            return True
        return self._more is not None and await self._more.has(origin)


def without_lookups(cors: Cors | None) -> Cors | None:
    """The same without looked-up origins, for when the database cannot be read yet."""
    return cors and Cors(cors.origins)


def is_preflight(request: Request) -> bool:
    """Whether this is a browser's preflight rather than a request of the page itself."""
    return request.method == "OPTIONS" and "origin" in request.headers and _ASKED in request.headers


Sharings = Mapping[Sharing, Cors]

PUBLISHED: Sharings = {Sharing.ALL: Cors([ANY])}
"""For mounts where other origins may read published data only."""


def sharings(origins: Collection[str], clients: PageOrigins) -> Sharings:
    """The allowed origins of an API by `Sharing`; `origins` is the setting `cors_origins`."""
    listed = {Sharing.LISTED: Cors(origins)} if origins else {}
    return {**listed, Sharing.CLIENTS: Cors(origins, clients), **PUBLISHED}
