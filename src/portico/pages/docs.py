"""What a reader needs: the OpenAPI document of every mounted version, and a page made of it.

Static files, each made when it is first asked for: outside the limits, for anyone, over HTTPS.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

import msgspec

from portico.domain.limits import Plan
from portico.http.conditions import entity_tag, matches
from portico.http.messages import JSON, Reply, Scope
from portico.http.openapi import document
from portico.http.routing import Mount

HTML = "text/html; charset=utf-8"
ASSETS = {"docs.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
"""The files beside this module that the page needs, and their types."""

_PLACE = Path(__file__).parent

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

SECURITY = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("content-security-policy", _POLICY),
)
"""Headers of every file. Nothing here loads what another host serves, nor runs a script."""

_REVALIDATED = "public, no-cache"
_FOREVER = "public, max-age=31536000, immutable"


class File:
    """One static file, with its headers."""

    def __init__(self, content_type: str, body: bytes, cache_control: str) -> None:
        self.body = body
        self.tag = entity_tag(body)
        self.headers = (("etag", self.tag), ("cache-control", cache_control), *SECURITY)
        self.content_type = ("content-type", content_type)

    def reply(self, if_none_match: str | None) -> Reply:
        """The file, or 304 where the caller has it."""
        if if_none_match is not None and matches(if_none_match, self.tag, weak=True):
            return Reply(304, b"", list(self.headers))
        return Reply(200, self.body, [self.content_type, *self.headers])


class Docs:
    """The files of every mount: `openapi.json`, `docs` and what the page needs, below its base."""

    def __init__(self, mounts: Sequence[Mount], plans: Mapping[str, Plan]) -> None:
        """`plans` are what the limits allow."""
        self._by_host = len({mount.host for mount in mounts}) > 1
        self._files: dict[tuple[str, str], Callable[[], File]] = {}
        assets = {name: _hashed(name) for name in ASSETS}
        for mount in mounts:
            made = cache(partial(_document, mount, plans))
            below = (mount.host if self._by_host else "", mount.prefix)
            self._add(below, "openapi.json", partial(_json, made))
            self._add(below, "docs", partial(_page, made, assets))
            for name, address in assets.items():
                self._add(below, address, partial(_asset, name))
        self.paths = frozenset(path for _, path in self._files)
        """The paths that may be one of these files."""

    def _add(self, below: tuple[str, str], name: str, make: Callable[[], File]) -> None:
        host, prefix = below
        self._files[host, f"{prefix}/{name}"] = cache(make)

    def file(self, scope: Scope) -> File | None:
        """The file that a request asks for, None where its host has none at this path."""
        host = (scope.headers.get("host") or "") if self._by_host else ""
        make = self._files.get((host, scope.path))
        return make() if make else None


def _document(mount: Mount, plans: Mapping[str, Plan]) -> dict[str, object]:
    address = mount.environment.addresses.base
    return document(address, mount.routes, plans, mount.extra_headers)


def _json(made: Callable[[], dict[str, object]]) -> File:
    return File(JSON, msgspec.json.encode(made()), _REVALIDATED)


def _page(made: Callable[[], dict[str, object]], assets: Mapping[str, str]) -> File:
    # The template engine takes a tenth of a second to load, and most servers are never asked.
    from portico.pages.reference import page

    return File(HTML, page(made(), assets).encode(), _REVALIDATED)


def _asset(name: str) -> File:
    return File(ASSETS[name], _PLACE.joinpath(name).read_bytes(), _FOREVER)


def _hashed(name: str) -> str:
    """An address that changes with the content, so that it may be kept for ever."""
    return f"docs/{sha256(_PLACE.joinpath(name).read_bytes()).hexdigest()[:16]}-{name}"
