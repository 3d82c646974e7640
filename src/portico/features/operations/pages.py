"""The overview: first steps, the use of the plan, the latest events, and webhooks that fail; and
the page of requests."""

from collections.abc import Mapping, Sequence
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
from portico.features.operations.chart import chart
from portico.features.operations.last_backup import last_backup
from portico.features.operations.requests import (
    DAYS,
    HOURS,
    NamedFailure,
    RequestFilter,
    Requests,
    Summary,
)
from portico.features.people.sandbox import is_empty, reset
from portico.features.people.users import named_user
from portico.features.signin.storage import FactorStore
from portico.limits.protocol import ACCOUNT
from portico.web.messages import Reply
from portico.web.pages.filters import status_words
from portico.web.pages.site import PageRoute, Visit

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
