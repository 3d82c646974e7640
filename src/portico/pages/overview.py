"""The overview: the plan, and what was used of it."""

from portico.domain.api_keys import usable
from portico.domain.times import DAY, MINUTE
from portico.http.messages import Reply
from portico.pages.chart import DAYS, chart
from portico.pages.site import PageRoute, Visit
from portico.state.callers import ACCOUNT


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
    )


PAGES = (PageRoute("GET", "", show), PageRoute("GET", "/", show))
