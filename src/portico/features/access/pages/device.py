"""The page where a user types the code that a device shows, and decides (RFC 8628 §3.3)."""

from portico.core.oauth import spelled_user_code
from portico.features.access.authorization import allowed_before
from portico.features.access.device_authorization import decide, find
from portico.features.access.pages.consent import SHOWN, consent_page, grantable, ticked_of
from portico.features.signin.sessions import read_session
from portico.web.messages import Reply
from portico.web.pages.site import PageRoute, Visit

PATH = "/device"


async def show(visit: Visit) -> Reply:
    """GET /device: the field, filled with a code from the address if it has one."""
    return visit.page("device.html", "Connect a device", user_code=visit.sent("user_code"))


async def submit(visit: Visit) -> Reply:
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
    return visit.go(PATH, done="device-allowed" if allows else "device-denied")


PAGES = (PageRoute("GET", PATH, show), PageRoute("POST", PATH, submit))
