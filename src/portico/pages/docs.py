"""What a reader needs: the OpenAPI document of every mounted version, and a page made of it."""

from collections.abc import Callable, Mapping
from functools import cache, partial

import msgspec

from portico.domain.limits import Plan
from portico.http.messages import JSON
from portico.http.openapi import document
from portico.http.routing import Mount
from portico.pages.files import HTML, REVALIDATED, File, Files

DOCS_ASSETS = ("docs.css", "icon.svg")


def add_docs(files: Files, mount: Mount, plans: Mapping[str, Plan]) -> None:
    """Serves `openapi.json`, `docs` and what the page needs below a mount of the API.

    `plans` are what the limits allow.
    """
    made = cache(partial(_document, mount, plans))
    files.add(mount, "openapi.json", partial(_json, made))
    files.add(mount, "docs", partial(_page, made))
    files.add_assets(mount, *DOCS_ASSETS)


def _document(mount: Mount, plans: Mapping[str, Plan]) -> dict[str, object]:
    address = mount.environment.addresses.base
    return document(address, mount.routes, plans, mount.extra_headers)


def _json(made: Callable[[], dict[str, object]]) -> File:
    return File(JSON, msgspec.json.encode(made()), REVALIDATED)


def _page(made: Callable[[], dict[str, object]]) -> File:
    # The template engine takes a tenth of a second to load, and most servers are never asked.
    from portico.pages.reference import page

    return File(HTML, page(made()).encode(), REVALIDATED)
