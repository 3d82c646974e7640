"""The overview: the plan, and what was used of it."""

from portico.domain.api_keys import usable
from portico.domain.times import DAY, MINUTE
from portico.http.messages import Reply
from portico.pages.chart import DAYS, chart
from portico.pages.events import line, visible
from portico.pages.site import PageRoute, Visit
from portico.services.events import latest_events
from portico.state.callers import ACCOUNT

_EVENTS = 5


async def show(visit: Visit) -> Reply:
    """GET / of the dashboard."""
    env, now = visit.env, visit.request.now
    owner = await visit.owner()
    today = now // DAY
    use: dict[int, int] = {}
    used, keys = (0, 0), 0
    if owner is not None:
        used = await env.limiter.used((ACCOUNT, owner.id), now)
        use = await env.daily_use.of_user(owner.id, today - DAYS + 1)
        use[today] = max(use.get(today, 0), used[1])  # what is counted is stored a little later
        owned = await env.api_keys.of_user(owner.id)
        keys = sum(one.key.revoked_at is None and usable(one.key, now) for one in owned)
    told = await latest_events(env, visible(visit.request.caller), _EVENTS)
    return visit.page(
        "overview.html",
        "Overview",
        plan=env.plan(visit.user.plan),
        used=used,
        minute_ends=now - now % MINUTE + MINUTE,
        day_ends=now - now % DAY + DAY,
        chart=chart(use, today),
        total=sum(use.values()),
        most=max(use.values(), default=0),
        keys=keys,
        events=[line(event) for event in told.rows],
    )


PAGES = (PageRoute("GET", "", show), PageRoute("GET", "/", show))
