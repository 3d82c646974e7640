"""What a user sees of OAuth: the question whether an application may act for them."""

from urllib.parse import urlsplit

from portico.domain.oauth import Client
from portico.http.messages import Reply
from portico.pages.filters import in_order, named
from portico.pages.site import Visit

SHOWN = "scopes"
"""The field with the scopes that the page has shown, space-separated."""


def consent_page(
    visit: Visit,
    client: Client,
    redirect_uri: str,
    scopes: frozenset[str],
    *,
    nothing: bool,
    meanwhile: bool = False,
) -> Reply:
    """Asks the user who is signed in whether a client may have these scopes, or tells them
    that their role allows `nothing` of what it asks for; `meanwhile`, once more (409), since it
    would get more than what they allowed.

    The form goes to where it came from, with `csrf`, `SHOWN` and `decision`: `allow` or `deny`.
    Whoever wants another account signs out, and comes back there.
    """
    name = named(client.name, client.id)
    return visit.page(
        "consent.html",
        f"{name} gets no access" if nothing else f"Allow {name}?",
        status=409 if meanwhile else 200,
        nothing=nothing,
        meanwhile=meanwhile,
        shown=SHOWN,
        # The client may send its user on to another host, of which nobody knows here.
        leads_anywhere=True,
        client=client,
        destination=urlsplit(redirect_uri).netloc or f"{urlsplit(redirect_uri).scheme}:",
        scopes=in_order(scopes),
        address=f"{visit.request.path}?{visit.request.query_string}",
    )


def refusal_page(visit: Visit, error: str, message: str) -> Reply:
    """Tells the user that a client asks for what it may not (400); nothing is sent to it."""
    return visit.page(
        "oauth_error.html", "Authorization failed", status=400, error=error, message=message
    )
