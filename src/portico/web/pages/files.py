"""Static files, each built on first use: open to anyone over HTTPS, without rate limits."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from portico.web.conditions import coded_tag, entity_tag, matches, require_tag
from portico.web.content import BY_CODING, GZIP, gzipped, takes_gzip
from portico.web.cors import Sharing
from portico.web.messages import Reply, Request
from portico.web.routing import Access, Route

HTML = "text/html; charset=utf-8"
_CSS = "text/css; charset=utf-8"
_SCRIPT = "text/javascript; charset=utf-8"

ASSETS: dict[str, tuple[str, Sequence[str]]] = {
    "icon.svg": ("image/svg+xml", ("icon.svg",)),
    "docs.css": (_CSS, ("base.css", "docs.css")),
    "docs.js": (_SCRIPT, ("docs.js",)),
    "pages.css": (_CSS, ("base.css", "pages.css")),
    "passkeys.js": (_SCRIPT, ("passkeys.js",)),
    "sending.js": (_SCRIPT, ("sending.js",)),
    "pages.js": (_SCRIPT, ("pages.js", "search.js")),
    "htmx.js": (_SCRIPT, ("htmx.js",)),
}
"""The assets of pages: their type, and the files in `static` that they are made of."""

DOCS_ASSETS = ("docs.css", "docs.js", "icon.svg")
"""The assets of the reference."""

PAGE_ASSETS = (*DOCS_ASSETS, "pages.css", "pages.js", "htmx.js", "passkeys.js", "sending.js")
"""The assets of a site's pages."""

REVALIDATED = "public, no-cache"
_FOREVER = "public, max-age=31536000, immutable"

_PLACE = Path(__file__).parent / "static"

_PLAIN = (
    "default-src 'none'; style-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SCRIPTED = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""The policy of a page that runs our own scripts, which contact no other host."""


_SMALLEST = 9
"""The gzip level; each file is compressed once."""


class File:
    """One static file with its headers, plain and compressed."""

    def __init__(
        self, content_type: str, body: bytes, cache_control: str, policy: str = _PLAIN
    ) -> None:
        """The default `policy` forbids scripts and anything from another host."""
        self._bodies = (body, gzipped(body, _SMALLEST))
        tag = entity_tag(body)
        self._tags = (tag, coded_tag(tag))
        self._headers = (
            ("cache-control", cache_control),
            ("referrer-policy", "no-referrer"),
            ("content-security-policy", policy),
            BY_CODING,
        )
        self._types = (("content-type", content_type),), (("content-type", content_type), GZIP)

    def reply(self, request: Request) -> Reply:
        """The file, or 304 if the client has it. Raises `PreconditionFailed`."""
        require_tag(request, self._tags[0])
        coded = takes_gzip(request)
        tag = self._tags[coded]
        headers = [("etag", tag), *self._headers]
        known = request.listed("if-none-match")
        if known is not None and matches(known, tag, weak=True):
            return Reply(304, b"", headers)
        return Reply(200, self._bodies[coded], [*self._types[coded], *headers])


class _Made:
    """Serves a file, built on first use."""

    __slots__ = ("_file", "_make")

    def __init__(self, make: Callable[[], File]) -> None:
        self._make = make
        self._file: File | None = None

    async def serve(self, request: Request) -> Reply:
        if self._file is None:
            self._file = self._make()
        return self._file.reply(request)


def file_route(name: str, make: Callable[[], File], sharing: Sharing = Sharing.LISTED) -> Route:
    """The route of a file below a mount; `make` is called once."""
    return Route(
        method="GET",
        path=f"/{name}",
        handler=_Made(make).serve,
        access=Access.ANYONE,
        summary="A file",
        sharing=sharing,
    )


def page_route(name: str, here: Callable[[], File], elsewhere: Callable[[], File]) -> Route:
    """As `file_route`, for a page that readers on this machine get with its paths (`here`)."""
    files = {True: _Made(here), False: _Made(elsewhere)}

    async def serve(request: Request) -> Reply:
        return await files[request.is_local].serve(request)

    return replace(file_route(name, elsewhere), handler=serve)


@cache
def asset_routes(names: tuple[str, ...]) -> tuple[Route, ...]:
    """The routes of these `ASSETS`, each at its `asset_path`; every mount shares them."""
    return tuple(file_route(asset_path(name), partial(asset, name)) for name in names)


@cache
def asset_path(name: str) -> str:
    """The path of an asset below its mount. It changes with the content, so that browsers may keep
    the asset forever."""
    return f"static/{sha256(content(name)).hexdigest()[:16]}-{name}"


def asset(name: str, cache_control: str = _FOREVER) -> File:
    """One of `ASSETS`."""
    return File(ASSETS[name][0], content(name), cache_control)


def content(name: str) -> bytes:
    """The content of one of `ASSETS`."""
    return b"".join(_PLACE.joinpath(part).read_bytes() for part in ASSETS[name][1])
