"""The page on which a user allows or denies what a client wants, and that where they type the code
that a device shows (RFC 8628 §3.3)."""

from urllib.parse import urlsplit

from portico.core.oauth import OPENID_SCOPES, Client, implied, narrowed, spelled_user_code
from portico.core.scopes import SCOPES, of_role
from portico.core.text import counted
from portico.features.access.authorization import ConsentRequest, allowed_before
from portico.features.access.device_authorization import decide, find
from portico.features.signin.sessions import read_session
from portico.web.messages import Reply
from portico.web.pages.forms import Form
from portico.web.pages.html import in_order, named
from portico.web.pages.site import PageRoute, Visit

DEVICE = "/device"

SHOWN = "scopes"
"""The form field with the scopes that the page showed, space-separated."""

MAY = "may-"
"""The beginning of the names of the boxes, one for each scope of the API, that the user may
untick."""


def consent_page(
    visit: Visit,
    client: Client,
    redirect_uri: str,
    scopes: frozenset[str],
    *,
    nothing: bool,
    meanwhile: bool,
    user_code: str = "",
    known: bool = False,
) -> Reply:
    """Ask the signed-in user whether a client may have these scopes. With `nothing`, the page says
    that their role allows none of them; with `meanwhile`, it asks again (409), since the client
    would get more than the user allowed. It shows the `user_code` of a device, and offers no choice
    of scopes if the client is `known` to have all of them.

    The form is sent to the same address, with `csrf`, `SHOWN`, `decision` (`allow` or `deny`), and
    a box for each scope of the API.
    A user who wants to use another account signs out and returns here.
    """
    name = named(client.title, client.id)
    query = f"user_code={user_code}" if user_code else visit.request.query_string
    return visit.page(
        "consent.html",
        f"{name} gets no access" if nothing else f"Allow {name}?",
        status=409 if meanwhile else 200,
        nothing=nothing,
        meanwhile=meanwhile,
        shown=SHOWN,
        may=MAY,
        openid=OPENID_SCOPES,
        # The client may redirect on to another host, which is not known here.
        leads_anywhere=not user_code,
        user_code=user_code,
        known=known,
        client=client,
        destination=urlsplit(redirect_uri).netloc or f"{urlsplit(redirect_uri).scheme}:",
        scopes=in_order(scopes),
        reads_user=not scopes.isdisjoint(SCOPES),  # any of the API's opens GET /users/me
        lasts=counted(visit.env.settings.refresh_family_days, "day"),
        address=f"{visit.request.path}?{query}",
    )


def grantable(visit: Visit, wanted: ConsentRequest) -> frozenset[str]:
    """What a client wants, narrowed to the role of the signed-in user."""
    return narrowed(wanted.scopes, of_role(visit.user.role))


def ticked_of(form: Form, scopes: frozenset[str]) -> frozenset[str] | None:
    """Those of the scopes that the user has left ticked; None if the page did not show them all."""
    shown = implied(frozenset(form.text(SHOWN).split()))
    if form.has(SHOWN) and not scopes <= shown:  # every browser sends it
        return None
    ticked = implied(frozenset(one for one in SCOPES if form.has(f"{MAY}{one}")))
    return scopes & ticked.union(OPENID_SCOPES)


async def show_device(visit: Visit) -> Reply:
    """GET /device: the field, filled with a code from the address if it has one."""
    return visit.page("device.html", "Connect a device", user_code=visit.sent("user_code"))


async def submit_device(visit: Visit) -> Reply:
    """POST /device: a code, or the decision on it. Nothing is allowed that the page with this code
    and its client did not show."""
    by = visit.request.by
    asked = await find(visit.env, visit.sent("user_code"), by)
    scopes = grantable(visit, asked.wanted)
    wanted = asked.wanted._replace(scopes=scopes)
    known = await allowed_before(visit.env, wanted, visit.user)
    decision, ticked = visit.form.text("decision"), ticked_of(visit.form, scopes)
    unseen = decision == "allow" and (ticked is None or not visit.form.has(SHOWN))
    if unseen or decision not in ("allow", "deny"):
        return consent_page(
            visit,
            wanted.client,
            "",
            scopes,
            nothing=bool(asked.wanted.scopes) and not scopes,
            meanwhile=unseen,
            user_code=spelled_user_code(asked.code.user_code),
            known=known,
        )
    allows = decision == "allow" and bool(ticked or not asked.wanted.scopes)
    session = await read_session(visit.env, visit.session_id)
    chosen = asked._replace(wanted=wanted._replace(scopes=ticked or frozenset()))
    await decide(visit.env, chosen, session.proof, by, allows=allows, first=not known)
    return visit.go(DEVICE, done="device-allowed" if allows else "device-denied")


DEVICE_PAGES = (PageRoute("GET", DEVICE, show_device), PageRoute("POST", DEVICE, submit_device))
