"""Whose pages in browsers may call, by their origins: CORS, as the Fetch standard has it (§3.3).

Never with credentials: a page of another origin makes no use of anybody's cookie.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from portico.domain.errors import PermissionDenied
from portico.domain.origins import ANY
from portico.http.messages import Reply, Request
from portico.services.clients import PageOrigins

PREFLIGHT_SECONDS = 7_200
"""For how long browsers need not ask again: no more than two hours in any of them."""

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
"""The headers that pages may read, beside those that they may anyway."""

METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
HEADERS = (
    *("Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match"),
    "Last-Event-ID",
)
"""What a page may send to a path where there is nothing."""

_EXPOSED = ("access-control-expose-headers", ", ".join(EXPOSED))
_ASKED = "access-control-request-method"
_VARY = ("vary", "Origin")

Fields = Sequence[tuple[str, str]]


class Sharing(Enum):
    """Whose pages may read what a route answers."""

    LISTED = "listed"
    """Those of the setting `cors_origins`."""
    CLIENTS = "clients"
    """Those too that belong to public clients of OAuth."""
    ALL = "all"
    """Everybody's: it is published."""


class Cors:
    """Whose pages may call: of these origins."""

    def __init__(self, origins: Collection[str], more: PageOrigins | None = None) -> None:
        """`origins` as browsers spell them; `ANY` is all. `more` are not settled at the start."""
        self.origins = frozenset(origins)
        self._any = ANY in self.origins
        self._more = more

    async def headers(self, request: Request) -> Fields:
        """Those of the answer to a request."""
        # The same for everyone, whoever asks, where all may read it: so caches keep one answer.
        if self._any:
            return (("access-control-allow-origin", ANY), _EXPOSED)
        origin = request.header("origin")
        if origin is None or not await self._admits(origin):
            return (_VARY,)
        return (("access-control-allow-origin", origin), _EXPOSED, _VARY)

    async def preflight(
        self, request: Request, methods: Collection[str], headers: Collection[str]
    ) -> Reply:
        """What a path takes of a page (Fetch §4.8). Raises `PermissionDenied`."""
        origin = request.header("origin") or ""
        if not self._any and not await self._admits(origin):
            raise PermissionDenied(
                "Pages of this origin may not call this; an operator can list it in cors_origins."
            )
        fields = [
            ("access-control-allow-origin", ANY if self._any else origin),
            # Where there is nothing, the page reads so of the answer to its request.
            ("access-control-allow-methods", ", ".join(sorted(methods or METHODS))),
            ("access-control-allow-headers", ", ".join(sorted(headers or HEADERS))),
            ("access-control-max-age", str(PREFLIGHT_SECONDS)),
        ]
        return Reply(204, b"", fields if self._any else [*fields, _VARY])

    async def _admits(self, origin: str) -> bool:
        if origin in self.origins:
            return True
        return self._more is not None and await self._more.has(origin)


def settled(cors: Cors | None) -> Cors | None:
    """Its origins that are settled at the start alone: for when no others can be asked for."""
    return cors and Cors(cors.origins)


def is_preflight(request: Request) -> bool:
    """Whether a browser asks for a page what a path takes, rather than a page for something."""
    return request.method == "OPTIONS" and "origin" in request.headers and _ASKED in request.headers


Sharings = Mapping[Sharing, Cors]

PUBLISHED: Sharings = {Sharing.ALL: Cors([ANY])}
"""For what other pages may read nothing of but what is published."""


def sharings(origins: Collection[str], clients: PageOrigins) -> Sharings:
    """The origins of each kind, for an API: `origins` are those of `cors_origins`."""
    listed = {Sharing.LISTED: Cors(origins)} if origins else {}
    return {**listed, Sharing.CLIENTS: Cors(origins, clients), **PUBLISHED}
