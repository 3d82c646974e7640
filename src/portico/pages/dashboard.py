"""Every page of the dashboard, and where it is mounted."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from portico.http.routing import Mount
from portico.http.throttle import Throttle
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
from portico.pages.trying import Trying

SHOWING: tuple[PageRoute, ...] = (
    *overview.PAGES,
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
"""What every environment shows."""

ACCOUNT: tuple[PageRoute, ...] = (
    *sign_in.PAGES,
    *recovery.PAGES,
    *profile.PAGES,
    *security.PAGES,
    *LINKING,
    *devices.PAGES,
    *users.PAGES,
    *invitations.PAGES,
    *joining.PAGES,
)
"""What belongs to accounts themselves."""


def dashboard_mounts(
    accounts: Accounts, address: str, throttle: Throttle, trying: Trying
) -> Iterator[Mount]:
    """The dashboard at `address`, and below it the one of the environment in which the accounts
    have mirror users, whose API is tried there."""
    at = urlsplit(address)
    account = (*ACCOUNT, *provider_pages(accounts.environment))
    shown = [(accounts.environment, at.path, (*SHOWING, *account))]
    mirror = accounts.environment.mirror
    if mirror is not None:
        shown.append((mirror, f"{at.path}/{mirror.name}", (*SHOWING, *trying.pages)))
    dashboards = [Dashboard(env.name.capitalize(), base) for env, base, _ in shown]
    for env, base, pages in shown:
        site = Site(
            env,
            accounts,
            f"{at.scheme}://{at.netloc}",
            base,
            home=at.path,
            sign_in=at.path,
            forgot=f"{at.path}/forgot",
            sign_up=f"{at.path}/sign-up" if accounts.environment.sign_up else "",
            dashboards=dashboards,
        )
        responder = PageResponder(site, throttle)
        yield Mount(at.netloc, base, env, routes(site, pages), "dashboard", responder)
