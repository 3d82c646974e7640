"""The OpenAPI documents of every mounted version and of the authorization server, and the
reference, which is made of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
from markupsafe import Markup
from msgspec.structs import replace

from portico.domain.errors import NotFound, PorticoError
from portico.domain.limits import Plan
from portico.http.cors import PUBLISHED, Sharing
from portico.http.messages import JSON, Reply, Request
from portico.http.openapi import Part, auth_document, document, operation_id
from portico.http.openapi_webhooks import TAG as DELIVERIES
from portico.http.routing import AnyRoute, Mount, Responder
from portico.pages.code_samples import with_samples
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
from portico.pages.html import template
from portico.pages.reference.pages import Edition, Place, Reference, Sandbox
from portico.pages.site import html
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
    own = Part(addresses.base, mount.routes)
    auth = Part(addresses.auth, () if mount.extra_headers else auth_routes)
    described = partial(document, site_name=env.settings.site_name)
    alone = partial(described, own, Part(addresses.auth, ()), plans, mount.extra_headers)
    together = partial(described, own, auth, plans, mount.extra_headers)

    tested = (env.mirror or env).addresses
    hint = f"From [the dashboard]({tested.dashboard}/keys). Without one, this browser's session in"
    hint += " the sandbox is sent, if there is one."
    sandbox = Sandbox(tested.base, f"{tested.base}/docs", "Test key", hint)
    editions = [
        Edition(one.environment.name.capitalize(), one.environment.addresses.base) for one in beside
    ]

    @cache
    def reference(addresses: Addresses) -> Reference:
        note = template("authority_copy.html").render(needs_copy=addresses.needs_copy)
        place = Place(
            addresses.base,
            curl=addresses.curl,
            note=Markup(note),  # noqa: S704 - our own
            home=addresses.dashboard,
            editions=editions,
            # A superseded version is documented, but cannot be tried.
            sandbox=None if mount.extra_headers else sandbox,
        )
        return Reference(shown(together(), addresses), place)

    def page(name: str, text: Callable[[Reference], str]) -> AnyRoute:
        def make(*, here: bool) -> File:
            made = text(reference(addresses.read(here=here)))
            return File(HTML, made.encode(), REVALIDATED, SCRIPTED)

        return page_route(name, partial(make, here=True), partial(make, here=False))

    names = [*(operation_id(route) for route in (*own.routes, *auth.routes)), DELIVERIES]
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
        of_auth = partial(auth_document, auth, own.address, plans, site_name=env.settings.site_name)
        yield replace(
            below, host=at.netloc, prefix=at.path, name="auth", routes=(_json_route(of_auth),)
        )


def shown(document: Mapping[str, Any], addresses: Addresses) -> Mapping[str, Any]:
    """The document as its reference shows it to those who read these addresses: with samples for
    the clients, and lines for curl that trust the local authority."""
    info = document["info"]
    described = info["description"].replace("\ncurl ", f"\n{addresses.curl} ")
    return with_samples({**document, "info": {**info, "description": described}}, addresses)


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
