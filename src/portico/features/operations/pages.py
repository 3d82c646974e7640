"""The overview: first steps, the use of the plan, the latest events, and webhooks that fail; and
the page of requests. Both have a bar chart of requests, as coordinates for SVG."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple
from urllib.parse import urlencode

from portico.core.errors import Conflict
from portico.core.requests import EVERYBODY, NO_KEY, NOBODY, NOWHERE, Sums
from portico.core.times import DAY, MINUTE
from portico.features.access.storage import ApiKeys
from portico.features.events.audit import Audit
from portico.features.events.feed import latest_events
from portico.features.events.pages.events import lines, visible
from portico.features.events.pages.webhooks import failing
from portico.features.events.storage import Events
from portico.features.operations.moments import last_backup
from portico.features.operations.requests import (
    DAYS,
    HOURS,
    NamedFailure,
    RequestFilter,
    Requests,
    Span,
    Summary,
)
from portico.features.people.sandbox import is_empty, reset
from portico.features.people.users import named_user
from portico.features.signin.storage import FactorStore
from portico.limits.protocol import ACCOUNT
from portico.web.messages import Reply
from portico.web.pages.html import status_words
from portico.web.pages.site import PageRoute, Visit

WIDTH, HEIGHT = 900, 160

_LEAST = 2
"""The height of the smallest part of a bar."""


class Segment(NamedTuple):
    """The answered, failed or refused requests of one bar, and their place in it."""

    kind: str
    y: int
    height: int


class Bar(NamedTuple):
    """One unit of time: its start in epoch milliseconds, its requests, the place of its bar, and
    the bar's parts from the bottom up."""

    at: int
    sums: Sums
    x: int
    width: int
    parts: list[Segment]


class Chart(NamedTuple):
    """The bars of a span of time, the oldest first, and its requests in total."""

    bars: list[Bar]
    total: Sums
    levels: list[int]
    """The numbers of requests at the lines of the scale, the highest first, 0 last."""
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def lines(self) -> str:
        """The lines of the scale as one SVG path (`d`)."""
        last = len(self.levels) - 1
        return "".join(f"M0 {HEIGHT * line // last}H{self.width}" for line in range(last + 1))

    @property
    def marks(self) -> list[Bar]:
        """The bars at which the time is written: three or four, equally far apart."""
        return self.bars[:: len(self.bars) // (4 if len(self.bars) % 4 == 0 else 3)]

    @property
    def shapes(self) -> dict[str, str]:
        """For each kind, its parts in all bars as one SVG path (`d`), so that a page has few
        elements. They are lines as wide as a bar, whose dashes tell the kinds apart without
        colours."""
        shapes: dict[str, str] = {}
        for bar in self.bars:
            for part in bar.parts:
                drawn = f"M{bar.x + bar.width // 2} {part.y}v{part.height}"
                shapes[part.kind] = shapes.get(part.kind, "") + drawn
        return shapes


def chart(use: Mapping[int, Sums], span: Span, now: int) -> Chart:
    """The chart of a span of requests. Even the smallest count is visible."""
    units = range(span.first(now), span.first(now) + span.units)
    shown = [use.get(unit, Sums()) for unit in units]
    levels = _levels(max(sums.requests for sums in shown))
    step = WIDTH // span.units
    gap = max(step // 4, 2)
    bars = [
        Bar(
            unit * span.milliseconds,
            sums,
            place * step + gap // 2,
            step - gap,
            _parts(sums, levels[0]),
        )
        for place, (unit, sums) in enumerate(zip(units, shown, strict=True))
    ]
    return Chart(bars, sum(shown, Sums()), levels, step * span.units)


def _levels(most: int) -> list[int]:
    """The scale up to `most` or a little more: at most four steps of 1, 2 or 5 times a power of
    ten."""
    steps = (one * 10**power for power in count() for one in (1, 2, 5))
    step = next(step for step in steps if 4 * step >= most)
    return [step * number for number in range(max(-(-most // step), 1), -1, -1)]


def _parts(sums: Sums, top: int) -> list[Segment]:
    kinds = {"answered": sums.answered, "failed": sums.failed, "refused": sums.refused}
    kinds = {kind: requests for kind, requests in kinds.items() if requests}
    if not kinds:
        return []
    whole = max(sums.requests * HEIGHT // top, _LEAST * len(kinds))
    heights = {
        kind: max(requests * whole // sums.requests, _LEAST) for kind, requests in kinds.items()
    }
    heights[max(kinds, key=kinds.__getitem__)] += whole - sum(heights.values())
    parts, y = [], HEIGHT
    for kind, height in heights.items():
        y -= height
        parts.append(Segment(kind, y, height))
    return parts


_EVENTS = 5


_SPANS = {"hours": HOURS, "days": DAYS}


async def show_overview(visit: Visit) -> Reply:
    """GET / of the dashboard."""
    env, now = visit.env, visit.request.now
    owner = await visit.owner()
    span = visit.sent("span") if visit.sent("span") in _SPANS else "hours"
    use: Mapping[int, Sums] = {}
    used, keys = (0, 0), 0
    if owner is not None:
        used = await env.limiter.used((ACCOUNT, owner.id), now)
        use = await env[Requests].over_time(_SPANS[span], owner.id, now)
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
        span=span,
        chart=chart(use, _SPANS[span], now),
        keys=keys,
        steps=await _steps(visit, keys),
        sandbox=visit.site.dashboards[-1].base,
        failing=await failing(visit),
        events=await lines(visit, told.rows),
    )


async def _steps(visit: Visit, keys: int) -> list[str]:
    """The first steps that are not done yet. All but the first are those of an admin."""
    env = visit.env
    done = {"key": keys > 0}
    if "admin" in visit.request.caller.scopes:
        if visit.shows_accounts:
            done["factor"] = bool(await env[FactorStore].of_user(visit.user.id))
            done["mail"] = env.has_mail_server
            done["certificate"] = env.settings.local_authority is None
            done["backup"] = await last_backup(env[Audit]) is not None
        done["samples"] = not await is_empty(env.mirror or env)
    return [name for name, is_done in done.items() if not is_done]


OVERVIEW_PAGES = (PageRoute("GET", "", show_overview), PageRoute("GET", "/", show_overview))


async def fill(visit: Visit) -> Reply:
    """POST /samples. Raises `Conflict` if the sandbox has data, which would be deleted."""
    if not await is_empty(visit.env):
        raise Conflict("The sandbox has data. To replace it, run: portico sandbox reset")
    await reset(visit.env, await visit.by())
    return visit.go("/products", done="sandbox-filled")


SANDBOX_PAGES = (PageRoute("POST", "/samples", fill, "admin"),)
"""The pages that only the sandbox has."""


_NOWHERE = "none"
"""The value in an address for `NOWHERE`, and for requests without an account."""
_NOTHING = Summary({}, [], [], [], [])
_NONE: Sequence[NamedFailure] = ()


class _Asked(NamedTuple):
    """A query of the page: the span, and the filter's values, empty if not given."""

    span: str
    account: str
    route: str
    status: str
    key: str

    def query(self, **changes: str) -> str:
        """The query string of the same page with other values."""
        fields = {**self._asdict(), **changes}
        return urlencode({name: value for name, value in fields.items() if value})


class _Line(NamedTuple):
    """One line of a table of sums: its `value` in an address, its words, and the address that
    filters by it, or shows all again if it is the current filter."""

    value: str
    name: str
    small: str
    sums: Sums
    query: str
    chosen: bool


def _line(
    asked: _Asked, field: str, value: str, sums: Sums, name: str, small: str = "", **also: str
) -> _Line:
    chosen = value == getattr(asked, field)
    query = asked.query(**{field: "" if chosen else value}, **also)
    return _Line(value, name, small, sums, query, chosen)


def _asked(visit: Visit, *, is_admin: bool) -> _Asked:
    span = visit.sent("span")
    status, key = (visit.sent_number(name) for name in ("status", "key"))
    return _Asked(
        span if span in _SPANS else "hours",
        visit.sent("account").strip() if is_admin else "",
        visit.sent("route"),
        "" if status is None else str(status),
        "" if key is None else str(key),
    )


async def _account(visit: Visit, asked: _Asked, *, is_admin: bool) -> int | None:
    """The account whose requests are shown; None if there is no such account."""
    if not is_admin:
        owner = await visit.owner()
        return owner.id if owner else None
    if not asked.account:
        return EVERYBODY
    return NOBODY if asked.account == _NOWHERE else await named_user(visit.env, asked.account)


def _routes(asked: _Asked, summary: Summary) -> list[_Line]:
    return [
        _line(asked, "route", share.of or _NOWHERE, share.sums, share.of)
        for share in summary.routes
    ]


def _statuses(asked: _Asked, summary: Summary) -> list[_Line]:
    return [
        _line(asked, "status", str(share.of), share.sums, status_words(share.of))
        for share in summary.statuses
    ]


def _keys(asked: _Asked, summary: Summary, *, is_admin: bool) -> list[_Line]:
    lines = []
    for key, sums in summary.keys:
        also = {"account": str(key.user_id)} if is_admin else {}
        if key.id == NO_KEY:
            name, small = "No API key", "Sessions, logins, applications"
        else:
            name, small = key.name or f"Key {key.id}", key.hint or "Deleted"
        lines.append(_line(asked, "key", str(key.id), sums, name, small, **also))
    return lines


def _accounts(asked: _Asked, summary: Summary) -> list[_Line]:
    lines = []
    for account, sums in summary.accounts:
        if account.id == NOBODY:
            value, name, small = _NOWHERE, "No account", "Requests without a valid credential"
        else:
            value, name = str(account.id), account.name or f"Account {account.id}"
            small = account.email or "Deleted"
        lines.append(_line(asked, "account", value, sums, name, small))
    return lines


async def show(visit: Visit) -> Reply:
    """GET /requests."""
    is_admin = "admin" in visit.request.caller.scopes
    asked = _asked(visit, is_admin=is_admin)
    user_id = await _account(visit, asked, is_admin=is_admin)
    if user_id in (EVERYBODY, None):
        asked = asked._replace(key="")
    span, now = _SPANS[asked.span], visit.request.now
    summary, failed = _NOTHING, _NONE
    if user_id is not None:
        route = NOWHERE if asked.route == _NOWHERE else asked.route or None
        status, key = (int(text) if text else None for text in (asked.status, asked.key))
        chosen = RequestFilter(user_id, route, status, key)
        summary = await visit.env[Requests].summary(span, chosen, now)
        failed = await visit.env[Requests].latest_failed(chosen)
    return visit.page(
        "requests.html",
        "Requests",
        asked=asked,
        nowhere=_NOWHERE,
        is_admin=is_admin,
        of_all=user_id == EVERYBODY,
        unknown=user_id is None and is_admin,
        chart=chart(summary.over_time, span, now),
        routes=_routes(asked, summary),
        statuses=_statuses(asked, summary),
        keys=_keys(asked, summary, is_admin=is_admin),
        accounts=_accounts(asked, summary),
        failed=failed,
        filtered=bool(asked.route or asked.status or asked.key),
    )


REQUEST_PAGES = (PageRoute("GET", "/requests", show),)
