"""What has expired is forgotten, in small batches and by one process at a time; the rest stays."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from driving import NOON, Api
from jobs.conftest import Waiting
from operating import eventually
from portico.core.events import Published
from portico.core.times import DAY, HOUR, MINUTE
from portico.data.table import BATCH, Aging
from portico.features.events.storage import Deliveries, Events
from portico.features.operations.tidy import PAUSE_SECONDS, Tidy, bounds
from portico.jobs.runner import Lease

TODAY = NOON // DAY

ROWS: dict[Aging, tuple[str, int]] = {
    Aging.SESSIONS: (
        (
            "INSERT INTO sessions (user_id, token_hash, address, user_agent, created_at,"
            " last_seen_at, expires_at) VALUES (:user, :hash, '', '', 0, 0, :at)"
        ),
        NOON,
    ),
    Aging.TOKENS: (
        (
            "INSERT INTO tokens (grant_id, refresh_hash, access_hash, scopes, created_at,"
            " access_expires_at, refresh_expires_at) VALUES (:grant, :hash, :hash, '', 0, 0, :at)"
        ),
        NOON - HOUR,
    ),
    Aging.CODES: (
        (
            "INSERT INTO authorization_codes (code_hash, client_row_id, user_id, redirect_uri,"
            " scopes, signed_in_at, expires_at) VALUES (:hash, :client, :user, '', '', 0, :at)"
        ),
        NOON - DAY,
    ),
    Aging.DEVICE_CODES: (
        (
            "INSERT INTO device_codes (code_hash, user_code, client_row_id, scopes, expires_at,"
            " wait_ms) VALUES (:hash, :name, :client, '', :at, 5000)"
        ),
        NOON - DAY,
    ),
    Aging.GRANTS: (
        (
            "INSERT INTO grants (user_id, scopes, address, user_agent, created_at, last_used_at,"
            " expires_at) VALUES (:user, '', '', '', 0, 0, :at)"
        ),
        NOON,
    ),
    Aging.CHALLENGES: ("INSERT INTO challenges VALUES (:hash, :session, :at)", NOON),
    Aging.USED_CHALLENGES: ("INSERT INTO used_challenges VALUES (:hash, :at)", NOON),
    Aging.PENDING_SIGN_INS: ("INSERT INTO pending_sign_ins VALUES (:hash, :user, :at, NULL)", NOON),
    Aging.PROVIDER_VISITS: (
        "INSERT INTO provider_visits VALUES (:hash, 'p', '/', :user, NULL, '', :at)",
        NOON,
    ),
    Aging.EMAIL_TOKENS: (
        "INSERT INTO email_tokens VALUES (:hash, :user, 'reset', 'a@example.com', :at, 0, NULL)",
        NOON,
    ),
    Aging.INVITATIONS: (
        (
            "INSERT INTO invitations (token_hash, email, email_key, name, role, plan, signed_up,"
            " mailed, created_at, expires_at)"
            " VALUES (:hash, :name, :name, '', 'viewer', 'free', 0, 0, 0, :at)"
        ),
        NOON - 30 * DAY,
    ),
    Aging.SHOWN_ONCE: ("INSERT INTO shown_once VALUES (:hash, :user, :hash, :at)", NOON),
    Aging.KNOWN_ADDRESSES: (
        "INSERT INTO known_addresses VALUES (:user, :name, :at)",
        NOON - 365 * DAY,
    ),
    Aging.KNOWN_DEVICES: ("INSERT INTO known_devices VALUES (:user, :hash, :at)", NOON - 365 * DAY),
    Aging.IDEMPOTENCY_KEYS: (
        (
            "INSERT INTO idempotency_keys VALUES (:user, 'POST /', :hash, :hash, 201, '[]', :hash,"
            " :at)"
        ),
        NOON - DAY,
    ),
    Aging.REQUEST_HOURS: (
        "INSERT INTO request_hours VALUES (:number, :at, 'GET /v1/users', 200, 0, 1, 1)",
        NOON // HOUR - 47,
    ),
    Aging.REQUEST_DAYS: (
        "INSERT INTO request_days VALUES (:number, :at, 'GET /v1/users', 200, 0, 1, 1)",
        TODAY - 89,
    ),
    Aging.FAILED_REQUESTS: (
        (
            "INSERT INTO failed_requests VALUES (:number, :at, 'GET /v1/users', 429,"
            " 'RATE_LIMITED', 0, :name)"
        ),
        NOON - 30 * DAY,
    ),
    Aging.RATE_COUNTERS: ("INSERT INTO rate_counters VALUES (:name, 0, 1, :at, 1)", TODAY),
    Aging.FLUSHES: ("INSERT INTO flushes VALUES (:name, 1, :at)", NOON - 35 * DAY),
    Aging.UPLOADS: (
        (
            "INSERT INTO uploads (token, kind, account_id, actor, name, updates, size, state,"
            " created_at, seen_at, line, done, inserted, updated, unchanged, faulty, problem)"
            " VALUES (:name, 'products', 1, '{}', 'a.csv', 0, 1, 'stored', :at, 0, 0, 0, 0, 0, 0,"
            " 0, '')"
        ),
        NOON - DAY,
    ),
    Aging.LEASES: ("INSERT INTO leases VALUES (:name, 'killed', :at)", NOON - DAY),
}
"""How a row of each kind is made, and the age below which it goes at noon."""

OLD = 2 * BATCH + 1


async def at_once(_seconds: float) -> None:
    """Lets no time pass."""


@pytest.fixture(autouse=True)
async def begun(api: Api) -> None:
    """The server has tidied once: it would forget by itself what a test leaves for another."""
    runs = [one for one in api.server._runner.runs if one.job == "tidy"]  # noqa: SLF001 - not shown
    await eventually(lambda: all(one.succeeded_at for one in runs), "the first run")


async def owners(api: Api) -> dict[str, int]:
    """Ids of what the rows belong to."""
    user = (await api.account()).id
    async with api.live.db.transaction() as tx:
        client = await tx.one(
            "INSERT INTO oauth_clients (client_id, name, redirect_uris, scopes, created_at)"
            " VALUES ('c', '', '', '', 0) RETURNING id"
        )
        grant = await tx.one(
            "INSERT INTO grants (user_id, scopes, address, user_agent, created_at, last_used_at,"
            " expires_at) VALUES (:user, '', '', '', 0, 0, :at) RETURNING id",
            {"user": user, "at": 10 * NOON},
        )
        session = await tx.one(
            "INSERT INTO sessions (user_id, token_hash, address, user_agent, created_at,"
            " last_seen_at, expires_at) VALUES (:user, :hash, '', '', 0, 0, :at) RETURNING id",
            {"user": user, "hash": b"lasting", "at": 10 * NOON},
        )
    assert client is not None
    assert grant is not None
    assert session is not None
    return {"user": user, "client": client[0], "grant": grant[0], "session": session[0]}


async def fill(api: Api, kind: Aging, ids: dict[str, int], ages: list[int], first: int = 0) -> None:
    sql, _ = ROWS[kind]
    async with api.live.db.transaction() as tx:
        rows: list[dict[str, Any]] = [
            {**ids, "number": n, "name": f"n{n}", "hash": n.to_bytes(32, "big"), "at": at}
            for n, at in enumerate(ages, first)
        ]
        await tx.run_many(sql, rows)


async def ages(api: Api, kind: Aging) -> list[int]:
    table, age = kind.terms["table"], kind.terms["age"]
    sql = f"SELECT {age} FROM {table} WHERE {age} < :far ORDER BY {age}"  # noqa: S608 - constants
    rows = await api.live.db.slow.all(sql, {"far": 9 * NOON})
    return [row[0] for row in rows if row[0] != NOON + MINUTE]  # the tidy's own lease


def test_every_kind_has_its_bound() -> None:
    assert bounds(NOON) == {kind: bound for kind, (_, bound) in ROWS.items()}
    assert set(ROWS) == set(Aging)


async def test_tidying_removes_old_rows_in_batches_and_keeps_the_rest(api: Api) -> None:
    ids, stays = await owners(api), [0, 0, 1, 2]
    for kind, (_, bound) in ROWS.items():
        await fill(api, kind, ids, [bound - 1 - n % 5 for n in range(OLD)])
        await fill(api, kind, ids, [bound + later for later in stays], OLD)
    api.live.settings = replace(api.live.settings, events_days=12)
    kept = NOON - 12 * DAY
    async with api.live.db.transaction() as tx:
        for at in [kept - 1] * OLD + [kept] * len(stays):
            await api.live[Events].add(tx, at, Published("product.created", "{}"))
            await api.live[Deliveries].add(tx, at, [(1, 1, "product.created")])
    await api.live[Events].number()

    async def left() -> int:
        logs = "SELECT (SELECT count(*) FROM deliveries), (SELECT count(*) FROM events)"
        deliveries, events = await api.live.db.one(logs) or (0, 0)
        return sum([len(await ages(api, kind)) for kind in Aging], deliveries + events)

    counts = [await left()]

    async def wait(seconds: float) -> None:
        assert seconds == PAUSE_SECONDS
        counts.append(await left())

    await Tidy(api.live, "this", wait).run()
    kinds = len(ROWS) + 2
    assert (counts[0], await left()) == (kinds * (OLD + len(stays)), kinds * len(stays))
    assert max(more - fewer for more, fewer in pairwise(counts)) <= BATCH + 1
    for kind, (_, bound) in ROWS.items():
        assert await ages(api, kind) == [bound + later for later in stays], kind


async def test_tidying_finds_old_rows_by_the_index_of_their_age(api: Api) -> None:
    engine, ids = api.live.db.engine, await owners(api)
    explain = {"sqlite": "EXPLAIN QUERY PLAN ", "postgres": "EXPLAIN "}[engine]
    for kind, (_, bound) in ROWS.items():
        await fill(api, kind, ids, [bound - 1 + n for n in range(2_000)])
    async with api.live.db.transaction() as tx:
        await tx.script("ANALYZE")
        for kind, (_, bound) in ROWS.items():
            values = {"after": 0, "before": bound, "limit": BATCH}
            rows = await tx.all(explain + kind.forgetting(engine), values)
            plan = "\n".join(str(row[-1]) for row in rows)
            assert "_by_" in plan, plan
            assert "Seq Scan" not in plan, plan
            assert "SCAN" not in plan, plan


async def test_what_another_process_tidies_is_left_to_it_until_it_is_gone(api: Api) -> None:
    kind = Aging.SESSIONS
    await fill(api, kind, await owners(api), [NOON - 1] * 3)
    other = Lease(api.live, "tidy", "another")
    async with api.live.db.transaction() as tx:
        assert await other.renewed(tx)
    await Tidy(api.live, "this", at_once).run()
    assert len(await ages(api, kind)) == 3
    api.clock.advance(milliseconds=MINUTE)
    await Tidy(api.live, "this", at_once).run()
    assert await ages(api, kind) == []


async def test_whoever_lost_the_lease_forgets_nothing_more(api: Api, waiting: Waiting) -> None:
    kind = Aging.SESSIONS
    await fill(api, kind, await owners(api), [NOON - 1] * OLD)
    tidying = asyncio.create_task(Tidy(api.live, "this", waiting).run())
    _, go_on = await waiting.next()
    api.clock.advance(milliseconds=MINUTE)
    async with api.live.db.transaction() as tx:
        assert await Lease(api.live, "tidy", "another").renewed(tx)
    go_on.set_result(None)
    await tidying
    assert len(await ages(api, kind)) == OLD - BATCH
    async with Lease(api.live, "tidy", "a third").held() as mine:
        assert not mine, "the other still has it"
