"""The overview: the plan, its use, the latest events, and webhooks that fail."""

from collections.abc import Mapping

from portico.domain.requests import Sums
from portico.domain.times import DAY, MINUTE
from portico.http.messages import Reply
from portico.pages.chart import chart
from portico.pages.events import lines, visible
from portico.pages.site import PageRoute, Visit
from portico.pages.webhooks import failing
from portico.services.events import latest_events
from portico.state.callers import ACCOUNT
from portico.storage.api_keys import ApiKeys
from portico.storage.events import Events
from portico.storage.requests import DAYS, HOURS, Requests

_EVENTS = 5


async def show(visit: Visit) -> Reply:
    """GET / of the dashboard."""
    env, now = visit.env, visit.request.now
    owner = await visit.owner()
    hours: Mapping[int, Sums] = {}
    days: Mapping[int, Sums] = {}
    used, keys = (0, 0), 0
    if owner is not None:
        used = await env.limiter.used((ACCOUNT, owner.id), now)
        hours = await env[Requests].over_time(HOURS, owner.id, now)
        days = await env[Requests].over_time(DAYS, owner.id, now)
        keys = await env[ApiKeys].count_usable(owner.id, now)
    told = await latest_events(env[Events], visible(visit.request.caller), _EVENTS)
    return visit.page(
        "overview.html",
        "Overview",
        plan=env.plan(visit.user.plan),
        owner=owner,
        used=used,
        minute_ends=now - now % MINUTE + MINUTE,
        day_ends=now - now % DAY + DAY,
        hours=chart(hours, HOURS, now),
        days=chart(days, DAYS, now),
        keys=keys,
        failing=await failing(visit),
        events=await lines(visit, told.rows),
    )


PAGES = (PageRoute("GET", "", show), PageRoute("GET", "/", show))
