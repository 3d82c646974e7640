"""Every request that counts is told of as its account will see it: how many, and which failed."""

import random
from collections import Counter
from itertools import count

from driving import NOON, TINY, Api, refused
from portico.core.requests import EVERYBODY, NO_KEY, NOBODY, NOWHERE, Sums
from portico.core.times import DAY, HOUR
from portico.environment import Environment
from portico.features.operations.requests import DAYS, HOURS, RequestFilter, Requests, Summary
from portico.features.operations.storing import StoreRequests
from portico.features.operations.tidy import Tidy
from signing_in import Visitor, client_of, login_of, named, oauth_refused, session_of

WRITERS = count(1)
USERS = "GET /v1/users"
ME = "GET /v1/users/me"


async def store(env: Environment) -> None:
    """Stores what was counted until now, as the server's own job does."""
    await StoreRequests(env, f"writer {next(WRITERS)}").run()


async def summary(api: Api, user_id: int, **chosen: object) -> Summary:
    await store(api.live)
    asked = RequestFilter(user_id, **chosen)  # type: ignore[arg-type]
    return await api.live[Requests].summary(HOURS, asked, api.clock())


async def test_requests_are_summed_by_time_route_status_and_key(api: Api) -> None:
    user = await api.account("viewer")
    one, other = await api.caller(user=user), await api.caller(user=user)
    for _ in range(3):
        await one.get("/users/me")
    await one.get("/users/999999999")
    await other.head("/users")
    await other.get("/nothing/of/ours?secret=1")
    await other.delete("/users/me")
    api.clock.advance(seconds=3_600)
    await other.post("/products", content=b"{")
    told = await summary(api, user.id)
    hour = NOON // HOUR
    assert told.over_time == {hour: Sums(7, failed=3), hour + 1: Sums(1, failed=1)}
    assert {share.of: share.sums for share in told.routes} == {
        ME: Sums(3),
        USERS: Sums(1),
        "GET /v1/users/{id}": Sums(1, failed=1),
        "POST /v1/products": Sums(1, failed=1),
        NOWHERE: Sums(2, failed=2),
    }
    assert {share.of: share.sums.requests for share in told.statuses} == {
        200: 4,
        403: 1,
        404: 2,
        405: 1,
    }
    assert [(share.of.id, share.of.name, share.sums.requests) for share in told.keys] == [
        (one.record.id, "A key", 4),
        (other.record.id, "A key", 4),
    ]
    assert told.accounts == []


async def test_429_is_listed_and_counted_apart_from_errors(api: Api) -> None:
    user = await api.account(plan=TINY)
    caller = await api.caller(user=user)
    for _ in range(3):
        await caller.get("/users/me")
    answers = [await caller.get("/users") for _ in range(2)]
    ids = [answer.headers["x-request-id"] for answer in answers]
    told = await summary(api, user.id)
    assert told.over_time == {NOON // HOUR: Sums(5, refused=2)}
    failed = await api.live[Requests].latest_failed(RequestFilter(user.id))
    assert [(one.request.request_id, one.request.code) for one in failed] == [
        (ids[1], "RATE_LIMITED"),
        (ids[0], "RATE_LIMITED"),
    ]
    assert {(one.request.at, one.request.route, one.email) for one in failed} == {
        (NOON, USERS, user.email)
    }


async def test_sessions_and_tokens_count_for_their_account(api: Api) -> None:
    user = await api.account()
    visitor = Visitor(api)
    await visitor.me(cookie=await session_of(api.live, user))
    await visitor.me((await login_of(api.live, user)).access_token)
    owned = await client_of(api.live, owner=user)
    await visitor.form("introspect", {"token": "nothing", **named(owned)})
    oauth_refused(await visitor.renew(owned, "nothing"), 400, "invalid_grant")
    told = await summary(api, user.id)
    assert [(share.of.id, share.sums.requests) for share in told.keys] == [(0, 4)]
    assert {share.of for share in told.routes} == {
        ME,
        "POST /auth/introspect",
        "POST /auth/token",
    }
    (failed,) = await api.live[Requests].latest_failed(RequestFilter(user.id))
    assert failed.request.code == "invalid_grant"


async def test_strangers_count_under_nobody_and_leave_no_failed_request(api: Api) -> None:
    stranger = api.stranger()
    for _ in range(29):
        refused(await stranger.get("/users", headers={"authorization": "Bearer sk_live_no"}), 401)
    refused(await stranger.get("/nothing"), 401)
    refused(await stranger.get("/users"), 429)
    told = await summary(api, NOBODY)
    assert told.over_time == {NOON // HOUR: Sums(31, failed=30, refused=1)}
    assert {share.of for share in told.routes} == {USERS, NOWHERE}
    assert await api.live[Requests].latest_failed(RequestFilter(NOBODY)) == []
    assert await api.live[Requests].latest_failed(RequestFilter(EVERYBODY)) == []


async def test_requests_of_everybody_are_the_sum_and_stay_without_the_name_of_a_deleted_account(
    api: Api,
) -> None:
    admin, gone = await api.caller(), await api.caller("viewer")
    for _ in range(2):
        await gone.get("/users/999999999")
    await api.stranger().get("/users")
    assert (await admin.delete(f"/users/{gone.user.id}")).status_code == 204
    told = await summary(api, EVERYBODY)
    assert told.over_time == {NOON // HOUR: Sums(4, failed=3)}
    assert [(share.of.id, share.of.email, share.sums) for share in told.accounts] == [
        (gone.user.id, None, Sums(2, failed=2)),
        (NOBODY, None, Sums(1, failed=1)),
        (admin.user.id, admin.user.email, Sums(1)),
    ]
    assert (gone.record.id, gone.user.id, None, None) in [share.of for share in told.keys]
    failed = await api.live[Requests].latest_failed(RequestFilter(EVERYBODY))
    assert [(one.request.user_id, one.email) for one in failed] == [(gone.user.id, None)] * 2
    told = await summary(api, EVERYBODY, route=USERS)
    assert [share.of.id for share in told.accounts] == [NOBODY]
    assert told.keys == []


async def test_requests_are_kept_by_hour_for_two_days_and_by_day_for_ninety(api: Api) -> None:
    caller = await api.caller()
    await caller.get("/users/me")
    await store(api.live)
    for days, hours, told in ((1, 1, 1), (3, 0, 1), (89, 0, 1), (90, 0, 0)):
        now = NOON + days * DAY
        for span, expected in ((HOURS, hours), (DAYS, told)):
            use = await api.live[Requests].over_time(span, caller.user.id, now)
            assert sum(sums.requests for sums in use.values()) == expected, (days, span)


async def test_summaries_equal_the_stored_rows_as_old_ones_go(api: Api) -> None:
    choose = random.Random(11)  # noqa: S311 - repeatable on purpose
    tidy = Tidy(api.live, "somebody")
    stored: list[tuple[tuple[int, int, str, int, int], int]] = []
    for step in range(6):
        hour = api.clock() // HOUR
        counts = {
            (
                choose.choice((NOBODY, 1, 2)),
                hour - choose.choice((0, 1, 47, 48, 49, 24 * 89, 24 * 90, 24 * 91)),
                choose.choice((ME, USERS)),
                choose.choice((200, 404, 429)),
                choose.choice((NO_KEY, 7, 8)),
            ): choose.randrange(1, 9)
            for _ in range(40)
        }
        stored += counts.items()
        async with api.live.db.transaction() as tx:
            made = {kind: (requests, 0) for kind, requests in counts.items()}
            await api.live[Requests].add(tx, made, [])
        if step % 2:
            await tidy.run()
        for span, hours in ((HOURS, 1), (DAYS, 24)):
            for chosen in ({}, {"status": 404}, {"route": ME}):
                asked = RequestFilter(EVERYBODY, **chosen)
                told = await api.live[Requests].summary(span, asked, api.clock())
                accounts: Counter[int] = Counter()
                for (user_id, at, route, status, _), count_ in stored:
                    fits = chosen.items() <= {"route": route, "status": status}.items()
                    if fits and at // hours >= span.first(api.clock()):
                        accounts[user_id] += count_
                assert {one.of.id: one.sums.requests for one in told.accounts} == accounts
        api.clock.advance(seconds=choose.choice((3_600, 86_400, 40 * 86_400)))
    api.clock.advance(days=200)
    await tidy.run()
    assert await api.live.db.all("SELECT * FROM request_totals") == []
