"""The number of requests by hour and day, the latest failed requests, and the memory limiter's
counters, stored so that they survive a restart."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from portico.core.requests import (
    EVERYBODY,
    MOST_FAILED,
    NO_KEY,
    REFUSED,
    Counted,
    FailedRequest,
    Kind,
    Sums,
)
from portico.core.times import DAY, HOUR
from portico.data.database import Database, Params, Reader, Row, Transaction
from portico.data.table import Table

V = TypeVar("V")
Field = Literal["route", "status", "key_id"]

FAILED = Table("failed_requests", FailedRequest)
FAILED_DAYS = 30

WAYS = ("forward", "check", "verify")
"""How a service is asked for: requests to it are counted as `forward invoices`, and so on."""

MOST_SHOWN = 50
"""How many routes, keys or accounts a summary has: those with the most requests."""


class Span(NamedTuple):
    """A period up to now of `units` hours or days, each of `milliseconds`. Their requests are in
    `table`, whose `column` is the number of the unit since the epoch."""

    table: str
    column: str
    milliseconds: int
    units: int

    def first(self, now: int) -> int:
        """Its first unit, counted since the epoch."""
        return now // self.milliseconds - self.units + 1


HOURS = Span("request_hours", "hour", HOUR, 48)
DAYS = Span("request_days", "day", DAY, 90)


class Share(NamedTuple, Generic[V]):
    """The requests with one route, status, key or account."""

    of: V
    sums: Sums


class KeyName(NamedTuple):
    """Identifies an API key; `name` and `hint` are None if it was deleted."""

    id: int
    user_id: int
    name: str | None
    hint: str | None


class AccountName(NamedTuple):
    """Identifies an account; `name` and `email` are None if it was deleted."""

    id: int
    name: str | None
    email: str | None


class RequestFilter(msgspec.Struct, frozen=True):
    """Requests of one account, or of `EVERYBODY`; of one route, status or key if given."""

    user_id: int
    route: str | None = None
    status: int | None = None
    key_id: int | None = None

    def wheres(self, *, but: Field | None = None) -> Mapping[str, object]:
        """The required values by column, except for the column `but`."""
        return {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if value is not None and name != but
        }


class Summary(NamedTuple):
    """Requests of a span in groups. Each list has the most frequent first. The lists by route,
    status and key ignore the filter's own value of that field."""

    over_time: Mapping[int, Sums]
    routes: Sequence[Share[str]]
    statuses: Sequence[Share[int]]
    keys: Sequence[Share[KeyName]]
    accounts: Sequence[Share[AccountName]]


class Usage(NamedTuple):
    """The requests of one unit of a span: how many, how many of them were refused because a limit
    was reached, and what they took from the limits."""

    unit: int
    requests: int
    refused: int
    cost: int


class NamedFailure(NamedTuple):
    """A failed request and its account's e-mail, None if the account was deleted."""

    request: FailedRequest
    email: str | None


_ADD = """
INSERT INTO {table} AS r (user_id, {column}, route, status, key_id, requests, cost)
VALUES (:user_id, :at, :route, :status, :key_id, :requests, :cost)
ON CONFLICT (user_id, {column}, route, status, key_id)
DO UPDATE SET requests = r.requests + excluded.requests, cost = r.cost + excluded.cost"""
_ADD_TOTALS = """
INSERT INTO request_totals AS t (unit, user_id, route, status, key_id, requests)
VALUES (:unit, :user_id, :route, :status, :key_id, :requests)
ON CONFLICT (unit, user_id, route, status, key_id)
DO UPDATE SET requests = t.requests + excluded.requests"""
_MADE = f"""
CAST(sum(requests) AS BIGINT) AS made,
    CAST(sum(CASE WHEN status >= 400 AND status <> {REFUSED} THEN requests ELSE 0 END) AS BIGINT)
        AS failed,
    CAST(sum(CASE WHEN status = {REFUSED} THEN requests ELSE 0 END) AS BIGINT) AS refused"""
_OVER_TIME = f"""
SELECT {{column}}, {_MADE} FROM {{table}}
WHERE {{column}} >= :since AND {{where}} GROUP BY {{column}}"""
_USAGE = f"""
SELECT {{column}}, CAST(sum(requests) AS BIGINT),
    CAST(sum(CASE WHEN status = {REFUSED} THEN requests ELSE 0 END) AS BIGINT),
    CAST(sum(cost) AS BIGINT)
FROM {{table}} WHERE {{column}} >= :since AND {{column}} < :until AND {{where}}
GROUP BY {{column}} ORDER BY {{column}}"""
# The total, minus what is too old and not removed yet.
_SUMS = f"""
SELECT {{by}}, {_MADE} FROM (
    SELECT user_id, route, status, key_id, requests FROM request_totals WHERE unit = '{{column}}'
    UNION ALL
    SELECT user_id, route, status, key_id, -requests FROM {{table}} WHERE {{column}} < :since
) AS kept WHERE {{where}}
GROUP BY {{by}} HAVING sum(requests) > 0 ORDER BY made DESC, {{by}} LIMIT :limit"""
_KEYS = """
SELECT s.key_id, s.user_id, k.name, k.hint, s.made, s.failed, s.refused
FROM ({sums}) AS s LEFT JOIN api_keys AS k ON k.id = s.key_id
ORDER BY s.made DESC, s.key_id"""
_ACCOUNTS = """
SELECT s.user_id, u.name, u.email, s.made, s.failed, s.refused
FROM ({sums}) AS s LEFT JOIN users AS u ON u.id = s.user_id
ORDER BY s.made DESC, s.user_id"""
_TRIM = f"""
DELETE FROM failed_requests WHERE user_id = :user_id AND (at, request_id) <= (
    SELECT at, request_id FROM failed_requests WHERE user_id = :user_id
    ORDER BY at DESC, request_id DESC LIMIT 1 OFFSET {MOST_FAILED})"""
_FAILED = f"""
SELECT u.email, {FAILED.of("f")}
FROM failed_requests AS f LEFT JOIN users AS u ON u.id = f.user_id
WHERE {{where}} ORDER BY f.at DESC, f.request_id DESC LIMIT {MOST_FAILED}"""


class Requests:
    """The requests that were made of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(
        self,
        tx: Transaction,
        counts: Mapping[Kind, Counted],
        failed: Sequence[FailedRequest],
    ) -> None:
        """Adds requests, and stores the failed ones: the latest of each account are kept."""
        hours = dict(counts)
        for (_, hour, route, status, _), more in counts.items():
            _add(hours, (EVERYBODY, hour, route, status, NO_KEY), more)
        days: dict[Kind, Counted] = {}
        for (user_id, hour, route, status, key_id), more in hours.items():
            _add(days, (user_id, hour * HOUR // DAY, route, status, key_id), more)
        # In a fixed order, so that two servers that add at the same time never deadlock.
        for span, units in ((HOURS, hours), (DAYS, days)):
            await tx.run_many(
                _ADD.format(table=span.table, column=span.column), map(_row, sorted(units.items()))
            )
            await tx.run_many(_ADD_TOTALS, _totals(span, units))
        await tx.run_many(FAILED.insert, map(FAILED.values, failed))
        users = sorted({request.user_id for request in failed})
        await tx.run_many(_TRIM, [{"user_id": one} for one in users])

    async def over_time(self, span: Span, user_id: int, now: int) -> Mapping[int, Sums]:
        """An account's requests by the units of a span; units without any are left out."""
        sums = _Sums(self._db.slow, span, now)
        return await sums.over_time({"user_id": user_id})

    async def summary(self, span: Span, chosen: RequestFilter, now: int) -> Summary:
        """The requests of a span that match a filter. They are grouped by account only for
        `EVERYBODY`."""

        async def read(reader: Reader) -> Summary:
            sums = _Sums(reader, span, now)
            of_all = chosen.user_id == EVERYBODY
            return Summary(
                await sums.over_time(chosen.wheres()),
                await sums.shares("route", chosen.wheres(but="route")),
                await sums.shares("status", chosen.wheres(but="status")),
                await sums.keys(chosen.wheres(but="key_id")),
                await sums.accounts(chosen.wheres()) if of_all else [],
            )

        return await self._db.snapshot(read)

    async def usage(
        self,
        span: Span,
        user_id: int,
        now: int,
        *,
        since: int,
        until: int,
        key_id: int | None = None,
        service: str | None = None,
    ) -> list[Usage]:
        """An account's requests with one key, to one service, or all, by the units of a span from
        `since` to before `until`, as far as they are kept."""
        values: dict[str, object] = {"user_id": user_id, "until": until}
        values["since"] = max(since, span.first(now))
        conditions = ["user_id = :user_id"]
        if key_id is not None:
            conditions.append("key_id = :key_id")
            values["key_id"] = key_id
        if service is not None:
            conditions.append(f"route IN ({', '.join(f':{way}' for way in WAYS)})")
            values.update({way: f"{way} {service}" for way in WAYS})
        sql = _USAGE.format(column=span.column, table=span.table, where=" AND ".join(conditions))
        return [Usage(*row) for row in await self._db.slow.all(sql, values)]

    async def latest_failed(self, chosen: RequestFilter) -> Sequence[NamedFailure]:
        """The latest failed requests that match a filter, newest first."""
        wheres = dict(chosen.wheres())
        if chosen.user_id == EVERYBODY:
            del wheres["user_id"]
        where = " AND ".join(f"f.{name} = :{name}" for name in wheres) or "TRUE"
        rows = await self._db.slow.all(_FAILED.format(where=where), wheres)
        return [NamedFailure(FAILED.read(row[1:]), row[0]) for row in rows]


def _add(sums: dict[Kind, Counted], kind: Kind, more: Counted) -> None:
    requests, cost = sums.get(kind, (0, 0))
    sums[kind] = requests + more[0], cost + more[1]


def _row(counted: tuple[Kind, Counted]) -> Params:
    (user_id, at, route, status, key_id), (requests, cost) = counted
    return {
        "user_id": user_id,
        "at": at,
        "route": route,
        "status": status,
        "key_id": key_id,
        "requests": requests,
        "cost": cost,
    }


def _totals(span: Span, units: Mapping[Kind, Counted]) -> Sequence[Params]:
    """The rows to add to the sums over all units."""
    totals: Counter[tuple[int, str, int, int]] = Counter()
    for (user_id, _, route, status, key_id), (requests, _) in units.items():
        totals[user_id, route, status, key_id] += requests
    return [
        {
            "unit": span.column,
            "user_id": user_id,
            "route": route,
            "status": status,
            "key_id": key_id,
            "requests": requests,
        }
        for (user_id, route, status, key_id), requests in sorted(totals.items())
    ]


class _Sums:
    """The sums of one span."""

    def __init__(self, reader: Reader, span: Span, now: int) -> None:
        self._reader = reader
        self._span = span
        self._units = {"since": span.first(now)}

    async def over_time(self, wheres: Mapping[str, object]) -> Mapping[int, Sums]:
        span = self._span
        where = " AND ".join(map(_is, wheres))
        sql = _OVER_TIME.format(column=span.column, table=span.table, where=where)
        rows = await self._reader.all(sql, {**wheres, **self._units})
        return {row[0]: Sums(*row[1:]) for row in rows}

    async def shares(self, by: str, wheres: Mapping[str, object]) -> list[Share[Any]]:
        rows = await self._all(self._sql(by, wheres), wheres)
        return [Share(row[0], Sums(*row[1:])) for row in rows]

    async def keys(self, wheres: Mapping[str, object]) -> list[Share[KeyName]]:
        sql = _KEYS.format(sums=self._of_each("key_id, user_id", wheres))
        return [Share(KeyName(*row[:4]), Sums(*row[4:])) for row in await self._all(sql, wheres)]

    async def accounts(self, wheres: Mapping[str, object]) -> list[Share[AccountName]]:
        sql = _ACCOUNTS.format(sums=self._of_each("user_id", wheres))
        return [
            Share(AccountName(*row[:3]), Sums(*row[3:])) for row in await self._all(sql, wheres)
        ]

    def _of_each(self, by: str, wheres: Mapping[str, object]) -> str:
        """Sums of rows that belong to an account; for `EVERYBODY`, without the rows that are sums
        over all accounts."""
        if wheres["user_id"] != EVERYBODY:
            return self._sql(by, wheres)
        conditions = [f"user_id <> :user_id{_KEYED if by.startswith('key_id') else ''}"]
        return self._sums(by, [*conditions, *(_is(name) for name in wheres if name != "user_id")])

    def _sql(self, by: str, wheres: Mapping[str, object]) -> str:
        return self._sums(by, [_is(name) for name in wheres])

    def _sums(self, by: str, conditions: Sequence[str]) -> str:
        where = " AND ".join(conditions)
        span = self._span
        return _SUMS.format(by=by, where=where, table=span.table, column=span.column)

    async def _all(self, sql: str, wheres: Mapping[str, object]) -> list[Row]:
        return await self._reader.all(sql, {**wheres, **self._units, "limit": MOST_SHOWN})


_KEYED = f" AND key_id <> {NO_KEY}"


def _is(column: str) -> str:
    return f"{column} = :{column}"


RateCounter = tuple[str, int, int, int, int]
"""Caller, minute window, its count, day window, its count."""

_RATES = ("caller", "minute", "minute_count", "day", "day_count")
_RATES_SINCE = f"SELECT {', '.join(_RATES)} FROM rate_counters WHERE day >= :day"
_SAVE_RATES = """
INSERT INTO rate_counters (caller, minute, minute_count, day, day_count)
VALUES (:caller, :minute, :minute_count, :day, :day_count)
ON CONFLICT (caller) DO UPDATE SET minute = excluded.minute,
    minute_count = excluded.minute_count, day = excluded.day, day_count = excluded.day_count"""


class RateCounters:
    """The stored counters of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def since(self, day: int) -> list[RateCounter]:
        """The counters of this day (days since the epoch) and later."""
        rows = await self._db.slow.all(_RATES_SINCE, {"day": day})
        return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]

    async def save(self, tx: Transaction, counters: Iterable[RateCounter]) -> None:
        """Stores counters."""
        await tx.run_many(_SAVE_RATES, [dict(zip(_RATES, row, strict=True)) for row in counters])


_BEGIN = """
INSERT INTO flushes AS f (writer, number, at) VALUES (:writer, :number, :at)
ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at
WHERE f.number < excluded.number RETURNING number"""


class Flushes:
    """The stored batches of one environment."""

    async def begin(self, tx: Transaction, writer: str, number: int, at: int) -> bool:
        """Begins to store a process's batch; False if it was stored before. The numbers of one
        process only grow, and a batch is stored before the next one begins."""
        values = {"writer": writer, "number": number, "at": at}
        return await tx.one(_BEGIN, values) is not None
