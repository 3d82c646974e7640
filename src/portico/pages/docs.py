"""The OpenAPI documents of every mounted version and of the authorization server, and the
reference, which is made of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from portico.domain.errors import NotFound, PorticoError
from portico.domain.limits import Plan
from portico.http.cors import PUBLISHED, Sharing
from portico.http.internal_client import InternalClient
from portico.http.messages import JSON, Reply, Request
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
    page_route,
)
from portico.pages.reference import DELIVERIES, Edition, Operation, Reference, operations
from portico.pages.site import Accounts, html
from portico.pages.trying import PATH, Trying
from portico.services.addresses import Addresses


def docs_mounts(
    mount: Mount,
    beside: Sequence[Mount],
    auth_routes: Sequence[AnyRoute],
    plans: Mapping[str, Plan],
    responder: Responder,
) -> Iterator[Mount]:
    """The documentation of an API mount: its `openapi.json`, `docs` with a page for each operation
    and their assets, and the authorization server's `openapi.json` unless the version is
    superseded.

    `beside` are the mounts of the same API in all environments, the live one first; `auth_routes`
    are the authorization server's, `plans` what the limits allow.
    """
    env = mount.environment
    addresses = env.addresses
    # A superseded version is documented, but cannot be tried.
    trying = "" if mount.extra_headers else (env.mirror or env).addresses.dashboard + PATH
    own = Part(addresses.base, mount.routes)
    auth = Part(addresses.auth, () if mount.extra_headers else auth_routes)
    described = partial(document, site_name=env.site_name)
    alone = partial(described, own, Part(addresses.auth, ()), plans, mount.extra_headers)
    together = partial(described, own, auth, plans, mount.extra_headers)

    @cache
    def reference(addresses: Addresses) -> Reference:
        editions = [
            Edition(one.environment.name.capitalize(), one.environment.addresses.base)
            for one in beside
        ]
        return Reference(together(), addresses, trying, editions)

    def page(name: str, text: Callable[[Reference], str]) -> AnyRoute:
        def make(*, here: bool) -> File:
            shown = text(reference(addresses.read(here=here)))
            return File(HTML, shown.encode(), REVALIDATED, SCRIPTED)

        return page_route(name, partial(make, here=True), partial(make, here=False))

    names = [operation_id(route) for route in (*own.routes, *auth.routes)]
    if "/webhooks" in {route.path for route in own.routes}:
        names.append(DELIVERIES)
    below = replace(mount, responder=responder, cors=PUBLISHED)
    yield replace(
        below,
        routes=(
            _json_route(alone),
            page("docs", Reference.index),
            *asset_routes(DOCS_ASSETS),
        ),
    )
    pages = [page(name, partial(Reference.page, name=name)) for name in names]
    yield _operations_mount(below, pages, lambda: reference(addresses.read(here=False)).nowhere())
    if auth.routes:
        at = urlsplit(auth.address)
        of_auth = partial(auth_document, auth, own.address, plans, site_name=env.site_name)
        yield replace(
            below, host=at.netloc, prefix=at.path, name="auth", routes=(_json_route(of_auth),)
        )


def _operations_mount(mount: Mount, pages: Sequence[AnyRoute], nowhere: Callable[[], str]) -> Mount:
    """The pages below the reference's first page."""
    return replace(
        mount,
        prefix=f"{mount.prefix}/docs",
        name=f"{mount.name}/docs",
        routes=tuple(pages),
        responder=_ReferenceResponder(mount.responder, cache(nowhere)),
    )


class _ReferenceResponder:
    """Answers below the reference's first page as for files, but an unknown path gets a page."""

    def __init__(self, files: Responder, nowhere: Callable[[], str]) -> None:
        self._files = files
        self._nowhere = nowhere
        self.serves = files.serves
        self.answer = files.answer

    def problem(self, request: Request, error: PorticoError) -> Reply:
        """An error as a reply."""
        if isinstance(error, NotFound):
            return html(self._nowhere(), 404)
        return self._files.problem(request, error)


def _json_route(make: Callable[[], dict[str, object]]) -> AnyRoute:
    return file_route(
        "openapi.json",
        lambda: File(JSON, msgspec.json.encode(make()), REVALIDATED),
        Sharing.ALL,
    )


def trying_in(
    accounts: Accounts, mount: Mount, plans: Mapping[str, Plan], inside: InternalClient
) -> Trying:
    """The pages that try out an API mount's operations; `accounts` are its environment's."""
    env = accounts.environment
    addresses = env.addresses

    def described() -> Mapping[str, Operation]:
        own, auth = Part(addresses.base, mount.routes), Part(addresses.auth, ())
        alone = document(own, auth, plans, site_name=env.site_name)
        return {one.id: one for one in operations(alone, addresses)}

    return Trying(accounts, described, inside)
