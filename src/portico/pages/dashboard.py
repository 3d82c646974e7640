"""All pages of the dashboard, and their mounts."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from portico.http.routing import Access, Mount
from portico.pages import (
    applications,
    audit,
    clients,
    devices,
    events,
    invitations,
    joining,
    keys,
    once,
    overview,
    product_changes,
    product_export,
    product_forms,
    product_import,
    products,
    profile,
    recovery,
    requests,
    security,
    sign_in,
    users,
    webhooks,
)
from portico.pages.providers import LINKING, provider_pages
from portico.pages.responder import PageResponder
from portico.pages.site import Accounts, Dashboard, PageRoute, Site, routes
from portico.services.environment import Environment

SHOWING: tuple[PageRoute, ...] = (
    *overview.PAGES,
    *users.PAGES,
    *products.PAGES,
    *product_forms.PAGES,
    *product_changes.PAGES,
    *product_export.PAGES,
    *product_import.PAGES,
    *keys.PAGES,
    *applications.PAGES,
    *events.PAGES,
    *clients.PAGES,
    *webhooks.PAGES,
    *requests.PAGES,
    *audit.PAGES,
    *once.PAGES,
)
"""The pages of every environment."""

ACCOUNT: tuple[PageRoute, ...] = (
    *sign_in.PAGES,
    *recovery.PAGES,
    *profile.PAGES,
    *security.PAGES,
    *LINKING,
    *devices.PAGES,
    *joining.PAGES,
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
    shown = [(live, at.path, (*SHOWING, *LIVE), account)]
    if mirror is not None:
        signed_in = tuple(page for page in account if page.access is not Access.ANYONE)
        shown.append((mirror, f"{at.path}/{mirror.name}", SHOWING, signed_in))
    dashboards = [Dashboard(env.name.capitalize(), base) for env, base, *_ in shown]
    for env, base, pages, account_pages in shown:
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
        yield _mount(site, env, pages)
        yield _mount(site._replace(of_accounts=True), live, account_pages)


def _mount(site: Site, env: Environment, pages: Sequence[PageRoute]) -> Mount:
    responder = PageResponder(site)
    host = urlsplit(site.origin).netloc
    return Mount(host, site.base, env, routes(site, pages), "dashboard", responder)
