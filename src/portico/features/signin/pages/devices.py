"""Where the account is signed in: browsers by session, programs by login token."""

from portico.core.errors import NotFound
from portico.core.sessions import read_agent
from portico.data.listing import Page
from portico.features.signin.service import end_login, end_session, sign_out_everywhere
from portico.features.signin.storage import Devices, KnownDevice
from portico.web.messages import Reply
from portico.web.pages.paging import PER_PAGE, numbered, offset_of, page_of
from portico.web.pages.site import PageRoute, Visit

KINDS = {"session": "Session", "login": "Login token"}


def agent_words(user_agent: str) -> str:
    """The browser and its system, or the program: "Firefox on Windows", "curl"."""
    agent = read_agent(user_agent)
    if agent.program is not None:
        return agent.program or "Unknown program"
    return f"{agent.browser or 'A browser'} on {agent.system or 'an unknown system'}"


async def show(visit: Visit) -> Reply:

    async def on(page: int) -> Page[KnownDevice]:
        return await visit.env[Devices].page(
            visit.user.id,
            visit.request.now,
            session_id=visit.session_id,
            offset=offset_of(page),
            limit=PER_PAGE,
        )

    page, devices = await page_of(visit, on)
    return visit.page(
        "devices.html",
        "Devices",
        devices=devices.rows,
        own=("session", visit.session_id),
        others=devices.total > 1,
        agent_words=agent_words,
        kinds=KINDS,
        **numbered(page, devices.total),
    )


async def ask_end(visit: Visit) -> Reply:
    by, row_id = visit.sent("kind"), visit.sent_id()
    place = await visit.env[Devices].get(visit.user.id, visit.request.now, by, row_id)
    if place is not None and (by, row_id) != ("session", visit.session_id):
        return visit.asks(
            f"Sign out {agent_words(place.user_agent)}?",
            f"It was signed in from {place.address or 'an unknown address'}.",
            words="Sign out device",
            danger=True,
            action="/devices/end",
            back=("/devices", "Devices"),
            kind=by,
            id=visit.sent("id"),
        )
    raise NotFound("This device is no longer signed in.")


async def end(visit: Visit) -> Reply:
    ends = {"session": end_session, "login": end_login}.get(visit.sent("kind"))
    if ends is None:
        raise NotFound("This device is no longer signed in.")
    await ends(visit.env, visit.sent_id(), visit.request.by, of_user=visit.user.id)
    return visit.go("/devices", done="device-ended")


async def ask_end_others(visit: Visit) -> Reply:
    return visit.asks(
        "Sign out everywhere else?",
        "All your other sessions end, and programs and applications lose access to your account."
        " API keys keep working.",
        words="Sign out everywhere else",
        danger=True,
        action="/devices/end-others",
        back=("/devices", "Devices"),
    )


async def end_others(visit: Visit) -> Reply:
    await sign_out_everywhere(
        visit.env, visit.user.id, visit.request.by, but_session=visit.session_id
    )
    return visit.go("/devices", done="others-ended")


PAGES = (
    PageRoute("GET", "/devices", show),
    PageRoute("GET", "/devices/end", ask_end),
    PageRoute("POST", "/devices/end", end),
    PageRoute("GET", "/devices/end-others", ask_end_others),
    PageRoute("POST", "/devices/end-others", end_others),
)
