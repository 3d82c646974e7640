"""Where the account is signed in: browsers by session, programs by login token."""

from typing import NamedTuple

from portico.domain.errors import NotFound
from portico.http.messages import Reply
from portico.pages.agents import agent_words
from portico.pages.site import PageRoute, Visit
from portico.services.environment import Environment
from portico.services.sign_out import end_grant, end_session, sign_out_everywhere


class Device(NamedTuple):
    """One place: what it was signed in by, "session" or "login", and the id of that. Times are
    epoch milliseconds."""

    by: str
    id: int
    agent: str
    kind: str
    address: str
    since: int
    seen: int
    current: bool


async def devices_of(
    env: Environment, user_id: int, now: int, *, session_id: int = 0
) -> list[Device]:
    """All of an account's, the one with the session that looks first, then the last seen."""
    devices = [
        Device(
            "session",
            one.id,
            agent_words(one.user_agent),
            "Session",
            one.address,
            one.created_at,
            now if one.id == session_id else one.last_seen_at,
            one.id == session_id,
        )
        for one in await env.sessions.of_user(user_id, now)
    ]
    devices += [
        Device(
            "login",
            one.id,
            agent_words(one.user_agent),
            "Login token",
            one.address,
            one.created_at,
            one.last_used_at,
            current=False,
        )
        for one in await env.grants.of_user(user_id, now)
        if one.client_row_id is None
    ]
    return sorted(devices, key=lambda device: (not device.current, -device.seen))


async def _devices(visit: Visit) -> list[Device]:
    return await devices_of(
        visit.env, visit.user.id, visit.request.now, session_id=visit.session_id
    )


async def show(visit: Visit) -> Reply:
    """GET /devices."""
    devices = await _devices(visit)
    return visit.page("devices.html", "Devices", devices=devices, others=len(devices) > 1)


async def ask_end(visit: Visit) -> Reply:
    """GET /devices/end."""
    asked = visit.sent("kind"), visit.sent_id()
    for device in await _devices(visit):
        if (device.by, device.id) == asked and not device.current:
            return visit.asks(
                f"Sign out {device.agent}?",
                f"It was signed in from {device.address or 'an unknown address'}.",
                words="Sign it out",
                danger=True,
                action="/devices/end",
                back=("/devices", "Devices"),
                kind=visit.sent("kind"),
                id=visit.sent("id"),
            )
    raise NotFound("You are not signed in there.")


async def end(visit: Visit) -> Reply:
    """POST /devices/end."""
    ends = {"session": end_session, "login": end_grant}.get(visit.sent("kind"))
    if ends is None:
        raise NotFound("You are not signed in there.")
    await ends(visit.env, visit.sent_id(), visit.request.by, of_user=visit.user.id)
    return visit.go("/devices", done="device-ended")


async def ask_end_others(visit: Visit) -> Reply:
    """GET /devices/end-others."""
    return visit.asks(
        "Sign out everywhere else?",
        "All other sessions end, and so does the access of programs and applications that signed"
        " in as you. API keys stay.",
        words="Sign out everywhere else",
        danger=True,
        action="/devices/end-others",
        back=("/devices", "Devices"),
    )


async def end_others(visit: Visit) -> Reply:
    """POST /devices/end-others."""
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
