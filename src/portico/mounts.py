"""Which routes are mounted at which address: the APIs, the authorization servers, pages and files.

`mounts` is the server's table of contents; `server` adds the operators' routes (`/metrics`, …).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from portico.api import api_keys, events, oauth, products, sessions, sign_in, users, webhooks
from portico.engines import SANDBOX
from portico.http.api_responder import ApiResponder
from portico.http.authenticate import Authenticators
from portico.http.cookies import Origins, session_cookie
from portico.http.cors import Sharings, sharings
from portico.http.oauth_responder import OAuthResponder
from portico.http.representations import Representations
from portico.http.routing import AnyRoute, Mount, Responder
from portico.pages.authorize import authorize_mount
from portico.pages.dashboard import dashboard_mounts
from portico.pages.docs import docs_mounts
from portico.pages.entrance import entrance_routes
from portico.pages.files import PAGE_ASSETS, asset_routes
from portico.pages.site import Accounts
from portico.services.clients import PageOrigins
from portico.services.credentials import Credentials
from portico.services.environment import Environment
from portico.settings import Settings

V1: tuple[AnyRoute, ...] = (
    *users.ROUTES,
    *products.ROUTES,
    *api_keys.ROUTES,
    *sessions.ROUTES,
    *events.ROUTES,
    *webhooks.ROUTES,
)


def v1(kinds: Sequence[Any] = ()) -> tuple[AnyRoute, ...]:
    """The routes of the API, with those of the installation's own kinds (`resource.compiled`)."""
    if not kinds:
        return V1
    from portico.resource.routes import routes

    return (*V1, *(route for kind in kinds for route in routes(kind)))


AUTH: tuple[AnyRoute, ...] = (*sign_in.ROUTES, *oauth.ROUTES)


def mounts(
    settings: Settings,
    environments: Sequence[Environment],
    credentials: Mapping[str, Credentials],
    kept: Representations,
    files: Responder,
) -> Iterator[Mount]:
    """Every mount except that of the operators' routes.

    `environments` are live and sandbox, in this order; `credentials` are by the environment's name.
    `files` serves files.
    """
    home = settings.dashboard_url
    origins = Origins(settings.addresses, home)
    cookie = session_cookie(settings.cookie_domain)
    authenticators = Authenticators(credentials, cookie, origins)
    api = ApiResponder(authenticators, origins, kept, body_limit=settings.body_limit)
    oauth_responder = OAuthResponder()
    live, sandbox = (Accounts(env, credentials[env.name], cookie, origins) for env in environments)
    cors = {env.name: sharings(settings.cors_origins, PageOrigins(env)) for env in environments}
    bases = [_base(env, api, cors[env.name]) for env in environments]
    yield from bases
    for env in environments:
        yield from _auth(env, api, oauth_responder, cors[env.name])
    pages = [
        *dashboard_mounts(live, home),
        authorize_mount(live, home, home),
        authorize_mount(sandbox, f"{home}/{SANDBOX}", ""),
    ]
    yield from pages
    yield from _files(bases, pages, settings, files)


def _files(
    bases: Sequence[Mount], pages: Sequence[Mount], settings: Settings, responder: Responder
) -> Iterator[Mount]:
    """The reference of each API version, the assets of pages, and the entrance at `/`."""
    for mount in bases:
        yield from docs_mounts(mount, bases, AUTH, settings.plans, responder)
    for mount in pages:
        yield replace(mount, routes=asset_routes(PAGE_ASSETS), responder=responder)
    entrance = entrance_routes(settings.dashboard_url, settings.base_url)
    yield Mount("", "", None, entrance, "", responder)


def _base(environment: Environment, responder: Responder, cors: Sharings) -> Mount:
    """The API of an environment, at its base address."""
    base = urlsplit(environment.addresses.base)
    routes = v1([records.kind for records in environment.records])
    return Mount(base.netloc, base.path, environment, routes, "v1", responder, cors=cors)


def _auth(
    environment: Environment, api: Responder, oauth_responder: Responder, cors: Sharings
) -> Iterator[Mount]:
    """The authorization server of an environment."""
    auth = urlsplit(environment.addresses.auth)
    mount = Mount(auth.netloc, auth.path, environment, sign_in.ROUTES, "auth", api, cors=cors)
    yield mount
    yield replace(mount, routes=oauth.ROUTES, responder=oauth_responder)
    yield replace(mount, prefix="", routes=sign_in.inserted(auth.path), name="")
