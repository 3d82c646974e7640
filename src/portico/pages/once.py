"""The page that shows a secret once; `Visit.once` redirects here."""

from portico.domain.errors import Gone
from portico.http.messages import Reply
from portico.pages.site import ONCE_PATH, PageRoute, Visit, html
from portico.services.shown_once import take_page

_SHOWN = (
    "This page is shown only once, within five minutes, and its secret cannot be looked up. If you"
    " did not save it, create a new one and revoke this one."
)


async def show(visit: Visit) -> Reply:
    """GET /once. HEAD does not count as the one view, and shows nothing."""
    if visit.request.method == "GET":
        accounts = visit.site.accounts.environment
        page = await take_page(
            accounts, visit.user.id, visit.sent("page"), visit.session_id, visit.request.by
        )
        if page is not None:
            return html(page.decode(), 200)
    raise Gone(_SHOWN)


PAGES = (PageRoute("GET", ONCE_PATH, show),)
