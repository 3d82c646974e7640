"""Which routes are mounted at which address: the APIs, the authorization servers, pages and files.

`mounts` is the server's table of contents; `server` adds the operators' routes (`/metrics`, …).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from portico.core.scopes import SCOPES
from portico.engines import SANDBOX
from portico.environment import Environment
from portico.features.access import (
    client_endpoints,
    key_endpoints,
    oauth_endpoints,
)
from portico.features.access.clients import PageOrigins
from portico.features.access.credentials import Credentials
from portico.features.access.oauth_responder import OAuthResponder
from portico.features.access.pages import clients, keys
from portico.features.access.pages.authorize import authorize_mount
from portico.features.agents import responder as agents
from portico.features.catalogue import pages as catalogue_pages
from portico.features.catalogue.products import PRODUCTS
from portico.features.events import endpoints as events_endpoints
from portico.features.events import webhook_endpoints
from portico.features.events.pages import audit, events, webhooks
from portico.features.operations import pages as operations_pages
from portico.features.operations import usage
from portico.features.people import endpoints as people_endpoints
from portico.features.people.pages import account, invitations, users
from portico.features.services import check, verify
from portico.features.services.check import CheckResponder
from portico.features.services.forward import ForwardResponder
from portico.features.services.service import Decisions
from portico.features.signin import endpoints as signin_endpoints
from portico.features.signin.pages import devices, security, sign_in
from portico.features.signin.pages.providers import LINKING, provider_pages
from portico.openapi.pages import docs_mounts, service_docs_mounts
from portico.outbound.exchange import Forwarder
from portico.resource.pages import pages
from portico.resource.routes import routes as kind_routes
from portico.settings import Settings
from portico.web.api_responder import ApiResponder, nothing_here
from portico.web.authenticate import Authenticators
from portico.web.cookies import Origins, session_cookie
from portico.web.cors import Sharings, sharings
from portico.web.messages import Reply, Request
from portico.web.pages import sent_once
from portico.web.pages.files import PAGE_ASSETS, REVALIDATED, asset, asset_routes, file_route
from portico.web.pages.responder import PageResponder
from portico.web.pages.search import search_page
from portico.web.pages.site import Accounts, Dashboard, PageRoute, Site, routes, see_other
from portico.web.peers import Peers
from portico.web.representations import Representations
from portico.web.routing import Access, AnyRoute, Mount, Responder, Route

SHOWING: tuple[PageRoute, ...] = (
    *operations_pages.OVERVIEW_PAGES,
    *users.PAGES,
    *catalogue_pages.PAGES.routes(),
    *keys.PAGES,
    *clients.APPLICATION_PAGES,
    *events.PAGES,
    *clients.PAGES,
    *webhooks.PAGES,
    *operations_pages.REQUEST_PAGES,
    *audit.PAGES,
    *sent_once.PAGES,
)
"""The pages of every environment."""

ACCOUNT: tuple[PageRoute, ...] = (
    *sign_in.PAGES,
    *account.PAGES,
    *security.PAGES,
    *LINKING,
    *devices.PAGES,
    *invitations.JOINING_PAGES,
)
"""The pages of one's own account."""

LIVE: tuple[PageRoute, ...] = (*users.RECOVERY, *invitations.PAGES)
"""The pages that only the accounts' environment has."""


def dashboard_mounts(accounts: Accounts, address: str) -> Iterator[Mount]:
    """The dashboard at `address`, and below it that of the environment with the mirror users. Both
    have the account's pages, so that their links stay in the environment that the user came
    from."""
    at = urlsplit(address)
    live, mirror = accounts.environment, accounts.environment.mirror
    account = (*ACCOUNT, *provider_pages(live))
    kinds = _kind_pages(live)
    searched = (catalogue_pages.PAGES.searched, users.SEARCHED, *(kind.searched for kind in kinds))
    of_kinds = (page for kind in kinds for page in kind.routes())
    showing = (*SHOWING, search_page(searched), *of_kinds)
    shown = [(live, at.path, (*showing, *LIVE), account)]
    if mirror is not None:
        signed_in = tuple(page for page in account if page.access is not Access.ANYONE)
        pages = (*showing, *operations_pages.SANDBOX_PAGES)
        shown.append((mirror, f"{at.path}/{mirror.name}", pages, signed_in))
    dashboards = [Dashboard(env.name.capitalize(), base) for env, base, *_ in shown]
    for env, base, env_pages, account_pages in shown:
        site = Site(
            env,
            accounts,
            f"{at.scheme}://{at.netloc}",
            base,
            home=at.path,
            sign_in=at.path,
            forgot=f"{at.path}/forgot",
            sign_up=f"{at.path}/sign-up" if live.sign_up_role else "",
            dashboards=dashboards,
        )
        yield _mount(site, env, env_pages)
        yield _mount(site._replace(of_accounts=True), live, account_pages)


def _kind_pages(environment: Environment) -> Sequence[Any]:
    """The pages of the installation's own kinds (`resource.pages.KindPages`)."""
    return [pages(records.kind) for records in environment.records]


def _mount(site: Site, env: Environment, its: Sequence[PageRoute]) -> Mount:
    responder = PageResponder(site)
    host = urlsplit(site.origin).netloc
    return Mount(host, site.base, env, routes(site, its), "dashboard", responder)


BUILT_IN: tuple[AnyRoute, ...] = (
    *people_endpoints.ROUTES,
    *kind_routes(PRODUCTS),
    *key_endpoints.ROUTES,
    *signin_endpoints.SESSION_ROUTES,
    *events_endpoints.ROUTES,
    *webhook_endpoints.ROUTES,
    *people_endpoints.INVITATION_ROUTES,
    *client_endpoints.ROUTES,
    *events_endpoints.AUDIT_ROUTES,
    *usage.ROUTES,
)


def v1(
    kinds: Sequence[Any] = (), decisions: Mapping[str, Decisions] | None = None
) -> tuple[AnyRoute, ...]:
    """The routes of the API, with those of the installation's own kinds (`resource.compiled`);
    `decisions` about services are by the environment's name."""
    ours = (*BUILT_IN, *verify.routes(decisions or {}))
    return (*ours, *(route for kind in kinds for route in kind_routes(kind)))


V1 = v1()
AUTH: tuple[AnyRoute, ...] = (
    *signin_endpoints.SIGN_IN_ROUTES,
    *oauth_endpoints.ROUTES,
    *oauth_endpoints.REGISTRATION,
)


def mounts(
    settings: Settings,
    environments: Sequence[Environment],
    credentials: Mapping[str, Credentials],
    kept: Representations,
    files: Responder,
    forwarder: Forwarder,
) -> Iterator[Mount]:
    """Every mount except that of the operators' routes.

    `environments` are live and sandbox, in this order; `credentials` are by the environment's name.
    `files` serves files, `forwarder` sends requests on to services.
    """
    home = settings.dashboard_url
    origins = Origins(settings.addresses, home)
    cookie = session_cookie(settings.cookie_domain)
    authenticators = Authenticators(credentials, cookie, origins)
    api = ApiResponder(authenticators, origins, kept, body_limit=settings.body_limit)
    oauth_responder = OAuthResponder()
    live, sandbox = (Accounts(env, credentials[env.name], cookie, origins) for env in environments)
    cors = {env.name: sharings(settings.cors_origins, PageOrigins(env)) for env in environments}
    decisions = _decisions(environments, credentials)
    bases = [_base(env, decisions, api, cors[env.name]) for env in environments]
    yield from bases
    for mount in bases:
        yield _metadata(mount, api, "", SCOPES)
    without_cookies = Authenticators(credentials, None, origins)
    for mount in bases:
        yield from _agents(mount, api, without_cookies, origins, settings.body_limit)
    for env in environments:
        yield from _auth(env, api, oauth_responder, cors[env.name])
    checks = CheckResponder(Peers(settings.trusted_proxies))
    for env in environments if settings.declared.services else ():
        decide = decisions[env.name]
        asked = check.routes(settings.declared.services, decide, authenticators)
        auth = urlsplit(env.addresses.auth)
        yield Mount(auth.netloc, auth.path, env, asked, "auth", checks)
        for service in settings.declared.services.values():
            upstream = service.sandbox_upstream if env.name == SANDBOX else service.upstream
            if service.path is not None and upstream is not None:
                base = urlsplit(env.addresses.base + service.path)
                forward = ForwardResponder(
                    service, upstream, base.path, decide, authenticators, forwarder, cookie.name
                )
                mount = Mount(base.netloc, base.path, env, (), "v1", forward, cors=cors[env.name])
                yield mount
                yield _metadata(mount, api, service.path, service.scopes)
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
        for service in settings.declared.services.values():
            if service.openapi is not None:
                yield from service_docs_mounts(mount, bases, service, responder)
    for mount in pages:
        yield replace(mount, routes=asset_routes(PAGE_ASSETS), responder=responder)
    entrance = _entrance_routes(settings.dashboard_url, settings.base_url)
    yield Mount("", "", None, entrance, "", responder)


def _entrance_routes(dashboard: str, api: str) -> tuple[Route, ...]:
    """What every host answers outside the mounts: `/`, which redirects browsers to `dashboard` and
    tells other clients the address `api`, `/favicon.ico`, and the address that password managers
    know (W3C, A Well-Known URL for Changing Passwords)."""

    async def enter(request: Request) -> Reply:
        if "text/html" not in (request.listed("accept") or ""):
            raise nothing_here(api)
        reply = see_other(dashboard)
        reply.headers.append(("vary", "Accept"))
        return reply

    async def change_password(_: Request) -> Reply:
        return see_other(f"{dashboard}/password")

    # Pages link to their icon; browsers ask for this one beside other documents, such as JSON.
    icon = partial(asset, "icon.svg", REVALIDATED)
    return (
        Route(
            method="GET",
            path="/",
            handler=enter,
            access=Access.ANYONE,
            summary="The way to the dashboard",
        ),
        Route(
            method="GET",
            path="/.well-known/change-password",
            handler=change_password,
            access=Access.ANYONE,
            summary="The way to the page that changes a password",
        ),
        file_route("favicon.ico", icon),
    )


def _decisions(
    environments: Sequence[Environment], credentials: Mapping[str, Credentials]
) -> dict[str, Decisions]:
    """Who decides about services, by the environment's name."""
    live, sandbox = environments
    pairs = ((live, sandbox), (sandbox, live))
    return {
        env.name: Decisions(env, credentials[env.name], credentials[other.name])
        for env, other in pairs
    }


def _base(
    environment: Environment,
    decisions: Mapping[str, Decisions],
    responder: Responder,
    cors: Sharings,
) -> Mount:
    """The API of an environment, at its base address."""
    base = urlsplit(environment.addresses.base)
    routes = v1([records.kind for records in environment.records], decisions)
    return Mount(base.netloc, base.path, environment, routes, "v1", responder, cors=cors)


def _metadata(mount: Mount, api: Responder, path: str, scopes: Collection[str]) -> Mount:
    """What clients must know of what is at `path` below the API."""
    route = oauth_endpoints.metadata_route(mount.environment.addresses.base + path, scopes)
    return replace(mount, prefix="", routes=(route,), name="", responder=api)


def _agents(
    base: Mount,
    api: ApiResponder,
    authenticators: Authenticators,
    origins: Origins,
    body_limit: int,
) -> Iterator[Mount]:
    """The tools of agents, beside the API whose requests they make."""
    env = base.environment.name
    responder = agents.AgentResponder(
        api, authenticators, origins, base.routes, env, body_limit=body_limit
    )
    yield replace(base, routes=responder.routes, responder=responder, cors={})
    yield _metadata(base, api, agents.PATH, responder.scopes)


def _auth(
    environment: Environment, api: Responder, oauth_responder: Responder, cors: Sharings
) -> Iterator[Mount]:
    """The authorization server of an environment."""
    auth = urlsplit(environment.addresses.auth)
    ours = (*signin_endpoints.SIGN_IN_ROUTES, *oauth_endpoints.REGISTRATION)
    mount = Mount(auth.netloc, auth.path, environment, ours, "auth", api, cors=cors)
    yield mount
    yield replace(mount, routes=oauth_endpoints.ROUTES, responder=oauth_responder)
    yield replace(mount, prefix="", routes=signin_endpoints.inserted(auth.path), name="")
