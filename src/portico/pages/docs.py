"""What a reader needs: the OpenAPI document of every mounted version, and a page made of it."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import msgspec

from portico.domain.limits import Plan
from portico.http.cors import Sharing
from portico.http.messages import JSON
from portico.http.openapi import Part, document
from portico.http.routing import AnyRoute, Mount
from portico.pages.files import HTML, REVALIDATED, File, asset_routes, file_route
from portico.pages.reference import page

DOCS_ASSETS = ("docs.css", "icon.svg")


def docs_routes(
    mount: Mount, auth_routes: Sequence[AnyRoute], plans: Mapping[str, Plan]
) -> tuple[AnyRoute, ...]:
    """The routes of `openapi.json`, `docs` and what the page needs, below a mount of the API.

    `auth_routes` are the authorization server's, `plans` what the limits allow.
    """
    made = cache(partial(_document, mount, auth_routes, plans))
    return (
        file_route("openapi.json", partial(_json, made), Sharing.ALL),
        file_route("docs", partial(_page, made)),
        *asset_routes(DOCS_ASSETS),
    )


def _document(
    mount: Mount, auth_routes: Sequence[AnyRoute], plans: Mapping[str, Plan]
) -> dict[str, object]:
    addresses = mount.environment.addresses
    version_part = Part(addresses.base, mount.routes)
    auth_part = Part(addresses.auth, () if mount.extra_headers else auth_routes)
    return document(version_part, auth_part, plans, mount.extra_headers)


def _json(made: Callable[[], dict[str, object]]) -> File:
    return File(JSON, msgspec.json.encode(made()), REVALIDATED)


def _page(made: Callable[[], dict[str, object]]) -> File:
    return File(HTML, page(made()).encode(), REVALIDATED)
