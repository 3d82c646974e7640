"""`GET /usage`: what an account asked for, by time, key and service, whoever counted it."""

from itertools import count
from typing import Any

import pytest

from driving import Api, Caller, refused
from portico.features.operations.storing import StoreRequests

WRITERS = count(1)
HOUR = "2026-03-15T12:00:00.000Z"
DAY = "2026-03-15T00:00:00.000Z"
MONTH = "2026-03-01T00:00:00.000Z"


async def usage(api: Api, caller: Caller, **query: Any) -> list[tuple[str, int, int, int]]:
    await StoreRequests(api.live, f"writer {next(WRITERS)}").run()
    answer = await caller.get("/usage", params={"to": "2026-07-01T00:00:00Z"} | query)
    assert answer.status_code == 200, answer.text
    return [tuple(row.values()) for row in answer.json()["data"]]


async def test_requests_refusals_and_cost_are_counted_by_key_and_service(api: Api) -> None:
    admin, editor = await api.caller("admin"), await api.caller("editor", plan="monthly")
    second = await api.caller(user=editor.user)
    item = {"name": "Lamp", "category": "light", "price": 1}
    assert (await editor.post("/products/batch", json={"items": [item] * 101})).status_code == 200
    await second.get("/nowhere")
    ask = {"credential": second.key, "service": "invoices", "path": "/bulk", "method": "POST"}
    sent = {"x-forwarded-method": "POST", "x-forwarded-uri": "/bulk"}
    check = "https://localhost:8443/auth/check/invoices"
    assert (await second.get(check, headers=sent)).status_code == 200
    for code in ("VALID", "RATE_LIMITED"):  # 7 each, and 20 a month
        assert (await admin.post("/verify", json=ask)).json()["data"]["code"] == code
    whose = {"user_id": editor.user.id}
    for query, counted in (
        ({}, (5, 1, 17)),
        ({"key_id": editor.record.id}, (1, 0, 2)),
        ({"key_id": second.record.id}, (4, 1, 15)),
        ({"service": "invoices"}, (3, 1, 14)),
        ({"service": "invoices", "key_id": second.record.id}, (3, 1, 14)),
    ):
        assert await usage(api, admin, **whose, **query) == [(DAY, *counted)], query
    for query in ({"service": "mail"}, {"key_id": admin.record.id}):
        assert await usage(api, admin, **whose, **query) == []


async def test_rows_begin_with_their_hour_day_or_month_and_lie_between_from_and_to(
    api: Api,
) -> None:
    caller = await api.caller("viewer", plan="enterprise")
    for hours in (0, 1, 40, 24 * 20):
        api.clock.advance(seconds=hours * 3_600)
        await caller.get("/users/me")
    one = (1, 0, 1)
    days = [(DAY, 2, 0, 2), ("2026-03-17T00:00:00.000Z", *one), ("2026-04-06T00:00:00.000Z", *one)]
    assert await usage(api, caller, by="hour") == [("2026-04-06T05:00:00.000Z", *one)]
    assert await usage(api, caller) == [*days[:2], (days[2][0], 2, 0, 2)]
    assert await usage(api, caller, by="month") == [
        (MONTH, 3, 0, 3),
        ("2026-04-01T00:00:00.000Z", 3, 0, 3),
    ]
    ages = {"from": "0001-01-01T00:00:00+05:00", "to": "9999-12-31T23:59:59Z", "by": "month"}
    assert sum(row[1] for row in await usage(api, caller, **ages)) == 7
    within = {"from": "2026-03-15T23:59:59Z", "to": "2026-03-17T00:00:00.001+00:00"}
    assert await usage(api, caller, **within) == days[:2]
    assert await usage(api, caller, **within, by="month") == [(MONTH, 3, 0, 3)]
    assert await usage(api, caller, **{**within, "to": "2026-03-17T00:00:00Z"}) == days[:1]


@pytest.mark.one_engine
async def test_others_usage_needs_the_scope_admin(api: Api) -> None:
    viewer, other = await api.caller("viewer", plan="enterprise"), await api.caller("viewer")
    assert await usage(api, viewer, user_id=viewer.user.id) == []
    for user_id in (other.user.id, 10**6):
        refused(await viewer.get("/usage", params={"user_id": user_id}), 403, "PERMISSION_DENIED")


FAULTY = (
    *(({"from": "yesterday"}, "from"), ({"to": "2026-03-15"}, "to")),
    *(({"from": HOUR, "to": HOUR}, "to"), ({"by": "week"}, "by"), ({"user_id": "0"}, "user_id")),
    *(({"key_id": "x"}, "key_id"), ({"service": "nothing"}, "service")),
)


@pytest.mark.one_engine
async def test_a_faulty_query_of_usage_is_refused(api: Api) -> None:
    caller = await api.caller("viewer", plan="enterprise")
    for query, field in FAULTY:
        assert list(refused(await caller.get("/usage", params=query), 400)) == [field]
