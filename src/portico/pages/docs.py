"""What a reader needs: the OpenAPI documents of every mounted version and of the authorization
server beside it, and pages made of both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from portico.domain.limits import Plan
from portico.http.cors import PUBLISHED, Sharing
from portico.http.inside import Inside
from portico.http.messages import JSON
from portico.http.openapi import Part, auth_document, document, operation_id
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
from portico.pages.reference import DELIVERIES, Edition, Operation, Reference, operations
from portico.pages.site import Accounts
from portico.pages.trying import PATH, Trying


def docs_mounts(
    mount: Mount,
    beside: Sequence[Mount],
    auth_routes: Sequence[AnyRoute],
    plans: Mapping[str, Plan],
    responder: Responder,
) -> Iterator[Mount]:
    """For a mount of the API: its `openapi.json`, `docs` with a page below it for each operation,
    what these need, and the `openapi.json` of the authorization server, unless the version is
    superseded.

    `beside` are the mounts of the same API in all environments, the live one first; `auth_routes`
    are the authorization server's, `plans` what the limits allow.
    """
    env = mount.environment
    addresses = env.addresses
    # What is superseded is described, and not tried.
    trying = "" if mount.extra_headers else (env.mirror or env).addresses.dashboard + PATH
    own = Part(addresses.base, mount.routes)
    auth = Part(addresses.auth, () if mount.extra_headers else auth_routes)
    alone = partial(document, own, Part(addresses.auth, ()), plans, mount.extra_headers)
    together = partial(document, own, auth, plans, mount.extra_headers)

    @cache
    def reference() -> Reference:
        editions = [
            Edition(one.environment.name.capitalize(), one.environment.addresses.base)
            for one in beside
        ]
        return Reference(together(), addresses, trying, editions)

    def page(name: str) -> AnyRoute:
        return file_route(f"docs/{name}", lambda: _shown(reference().page(name)))

    names = [operation_id(route) for route in (*own.routes, *auth.routes)]
    if "/webhooks" in {route.path for route in own.routes}:
        names.append(DELIVERIES)
    below = replace(mount, responder=responder, cors=PUBLISHED)
    yield replace(
        below,
        routes=(
            _json_route(alone),
            file_route("docs", lambda: _shown(reference().index())),
            *map(page, names),
            *asset_routes(DOCS_ASSETS),
        ),
    )
    if auth.routes:
        at = urlsplit(auth.address)
        of_auth = partial(auth_document, auth, own.address, plans)
        yield replace(
            below, host=at.netloc, prefix=at.path, name="auth", routes=(_json_route(of_auth),)
        )


def _shown(page: str) -> File:
    return File(HTML, page.encode(), REVALIDATED, SCRIPTED)


def _json_route(make: Callable[[], dict[str, object]]) -> AnyRoute:
    return file_route(
        "openapi.json",
        lambda: File(JSON, msgspec.json.encode(make()), REVALIDATED),
        Sharing.ALL,
    )


def trying_in(
    accounts: Accounts, mount: Mount, plans: Mapping[str, Plan], inside: Inside
) -> Trying:
    """Where the operations of a mount of the API are tried, whose `accounts` are its own."""
    addresses = accounts.environment.addresses

    def described() -> Mapping[str, Operation]:
        alone = document(Part(addresses.base, mount.routes), Part(addresses.auth, ()), plans)
        return {one.id: one for one in operations(alone, addresses)}

    return Trying(accounts, described, inside)
