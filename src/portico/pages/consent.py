"""The consent page, which asks the user whether an application may act for them."""

from urllib.parse import urlsplit

from portico.domain.oauth import Client
from portico.domain.scopes import SCOPES
from portico.domain.text import counted
from portico.http.messages import Reply
from portico.pages.filters import in_order, named
from portico.pages.site import Visit

SHOWN = "scopes"
"""The form field with the scopes that the page showed, space-separated."""


def consent_page(
    visit: Visit,
    client: Client,
    redirect_uri: str,
    scopes: frozenset[str],
    *,
    nothing: bool,
    meanwhile: bool,
) -> Reply:
    """Ask the signed-in user whether a client may have these scopes. With `nothing`, the page says
    that their role allows none of them; with `meanwhile`, it asks again (409), since the client
    would get more than the user allowed.

    The form is sent to the same address, with `csrf`, `SHOWN` and `decision` (`allow` or `deny`).
    A user who wants to use another account signs out and returns here.
    """
    name = named(client.name, client.id)
    return visit.page(
        "consent.html",
        f"{name} gets no access" if nothing else f"Allow {name}?",
        status=409 if meanwhile else 200,
        nothing=nothing,
        meanwhile=meanwhile,
        shown=SHOWN,
        # The client may redirect on to another host, which is not known here.
        leads_anywhere=True,
        client=client,
        destination=urlsplit(redirect_uri).netloc or f"{urlsplit(redirect_uri).scheme}:",
        scopes=in_order(scopes),
        reads_user=not scopes.isdisjoint(SCOPES),  # any of the API's opens GET /users/me
        lasts=counted(visit.env.settings.refresh_family_days, "day"),
        address=f"{visit.request.path}?{visit.request.query_string}",
    )


def refusal_page(visit: Visit, error: str, message: str) -> Reply:
    """Tell the user that the client's request is invalid (400); nothing is sent to the client."""
    return visit.page(
        "oauth_error.html", "Authorization failed", status=400, error=error, message=message
    )
