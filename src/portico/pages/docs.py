"""What a reader needs: the OpenAPI documents of every mounted version and of the authorization
server beside it, and a page made of both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from portico.domain.limits import Plan
from portico.http.cors import PUBLISHED, Sharing
from portico.http.messages import JSON
from portico.http.openapi import Part, auth_document, document
from portico.http.routing import AnyRoute, Mount, Responder
from portico.pages.files import (
    DOCS_ASSETS,
    HTML,
    REVALIDATED,
    SCRIPTED,
    File,
    asset_routes,
    file_route,
)
from portico.pages.reference import page


def docs_mounts(
    mount: Mount, auth_routes: Sequence[AnyRoute], plans: Mapping[str, Plan], responder: Responder
) -> Iterator[Mount]:
    """For a mount of the API: its `openapi.json`, `docs` and what that page needs, and the
    `openapi.json` of the authorization server, unless the version is superseded.

    `auth_routes` are the authorization server's, `plans` what the limits allow.
    """
    addresses = mount.environment.addresses
    own = Part(addresses.base, mount.routes)
    auth = Part(addresses.auth, () if mount.extra_headers else auth_routes)
    alone = partial(document, own, Part(addresses.auth, ()), plans, mount.extra_headers)
    together = partial(document, own, auth, plans, mount.extra_headers)

    def shown() -> File:
        return File(HTML, page(together(), addresses).encode(), REVALIDATED, SCRIPTED)

    below = replace(mount, responder=responder, cors=PUBLISHED)
    yield replace(
        below,
        routes=(
            _json_route(alone),
            file_route("docs", shown),
            *asset_routes(DOCS_ASSETS),
        ),
    )
    if auth.routes:
        at = urlsplit(auth.address)
        beside = partial(auth_document, auth, own.address, plans)
        yield replace(
            below, host=at.netloc, prefix=at.path, name="auth", routes=(_json_route(beside),)
        )


def _json_route(make: Callable[[], dict[str, object]]) -> AnyRoute:
    return file_route(
        "openapi.json",
        lambda: File(JSON, msgspec.json.encode(make()), REVALIDATED),
        Sharing.ALL,
    )
