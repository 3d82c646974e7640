"""Both windows of a plan, on every response (specification §8; decisions §8)."""

import asyncio
from typing import Any

import httpx
import pytest

from busy_machine import within
from driving import EVEN, NOON, TINY, Api, Caller, InProcess, refused
from operating import eventually
from portico.core.audit import OPERATOR
from portico.features.operations.counters import RateCounters
from portico.features.people.accounts import set_plan
from portico.limits.memory import MemoryLimiter

MINUTE = 60_000
NOON_SECONDS = NOON // 1000
MIDNIGHT_SECONDS = NOON_SECONDS + 43_200


def window(answer: httpx.Response) -> tuple[int, int, int]:
    """Limit, remaining and reset."""
    return (
        int(answer.headers["x-ratelimit-limit"]),
        int(answer.headers["x-ratelimit-remaining"]),
        int(answer.headers["x-ratelimit-reset"]),
    )


async def test_every_answer_counts_once_and_has_limit_headers(api: Api) -> None:
    caller = await api.caller("editor", plan="pro")
    product = await api.product()
    broken = await api.broken_product()
    where = f"/products/{product.id}"
    lamp = {"name": "Lamp", "category": "light", "price": 1}
    tag = (await caller.get(where)).headers["etag"]
    requests: list[tuple[int, str, str, dict[str, Any]]] = [
        (200, "GET", "/users/me", {}),
        (200, "HEAD", "/users/me", {}),
        (200, "PATCH", "/users/me", {"json": {}}),
        (201, "POST", "/products", {"json": lamp}),
        (204, "DELETE", f"/products/{(await api.product()).id}", {}),
        (304, "GET", where, {"headers": {"if-none-match": tag}}),
        (400, "GET", "/products?limit=0", {}),
        (400, "POST", "/products", {"json": []}),
        (403, "POST", "/users", {"json": {}}),
        (404, "GET", "/products/999999", {}),
        (404, "GET", "/nowhere", {}),
        (405, "PUT", where, {}),
        (406, "GET", where, {"headers": {"accept": "text/html"}}),
        (412, "DELETE", where, {"headers": {"if-match": '"other"'}}),
        (
            413,
            "POST",
            "/products",
            {"content": b" " * 2**21, "headers": {"content-type": "application/json"}},
        ),
        (415, "POST", "/products", {"content": b"x"}),
        (422, "POST", "/products", {"json": lamp | {"price": -1}}),
        (500, "PATCH", f"/products/{broken.id}", {"json": {"status": "active"}}),
    ]
    for number, (status, method, path, more) in enumerate(requests):
        answer = await caller.request(method, path, **more)
        assert answer.status_code == status, (method, path)
        assert window(answer) == (100, 98 - number, NOON_SECONDS + 60), (method, path)


async def test_a_minute_admits_its_number_and_then_refuses_without_counting(api: Api) -> None:
    caller = await api.caller("viewer", plan=TINY)
    for remaining in (2, 1, 0):
        assert window(await caller.get("/users/me")) == (3, remaining, NOON_SECONDS + 60)
    api.clock.advance(milliseconds=18_500)
    for _ in range(5):
        answer = await caller.get("/users/me")
        refused(answer, 429, "RATE_LIMITED")
        assert window(answer) == (3, 0, NOON_SECONDS + 60)
        assert answer.headers["retry-after"] == "42"
        assert answer.json()["error"]["message"] == "Too many requests; try again in 42 seconds."
    api.clock.now = NOON + MINUTE - 1
    answer = await caller.get("/users/me")
    refused(answer, 429)
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["message"] == "Too many requests; try again in 1 second."
    api.clock.now = NOON + MINUTE
    # Three of the day's five are used; the refusals are not among them.
    assert window(await caller.get("/users/me")) == (5, 1, MIDNIGHT_SECONDS)


@pytest.mark.one_engine
async def test_a_refused_request_changes_nothing(api: Api) -> None:
    editor = await api.caller("editor", plan=TINY)
    for _ in range(3):
        await editor.get("/users/me")
    async with api.unchanged():
        body = {"name": "Lamp", "category": "light", "price": 1}
        refused(await editor.post("/products", json=body), 429, "RATE_LIMITED")


async def test_a_day_admits_its_number_and_ends_at_midnight_utc(api: Api) -> None:
    caller = await api.caller("viewer", plan=TINY)
    for number in range(5):
        api.clock.now = NOON + number * MINUTE
        assert (await caller.get("/users/me")).status_code == 200
    for _ in range(3):
        answer = await caller.get("/users/me")
        refused(answer, 429, "RATE_LIMITED")
        assert window(answer) == (5, 0, MIDNIGHT_SECONDS)
        assert int(answer.headers["retry-after"]) == MIDNIGHT_SECONDS - NOON_SECONDS - 240
    api.clock.now = MIDNIGHT_SECONDS * 1000 - 1
    refused(await caller.get("/users/me"), 429)
    api.clock.now = MIDNIGHT_SECONDS * 1000
    assert window(await caller.get("/users/me")) == (3, 2, MIDNIGHT_SECONDS + 60)


async def test_of_two_equal_windows_the_headers_tell_the_later(api: Api) -> None:
    caller = await api.caller("viewer", plan=EVEN)
    assert window(await caller.get("/users/me")) == (5, 4, MIDNIGHT_SECONDS)


async def test_both_exhausted_windows_make_the_caller_wait_for_the_later(api: Api) -> None:
    caller = await api.caller("viewer", plan=EVEN)
    for _ in range(5):
        await caller.get("/users/me")
    answer = await caller.get("/users/me")
    assert answer.headers["retry-after"] == str(43_200)


@pytest.mark.parametrize("plan", ["free", "pro"])
async def test_one_of_limit_plus_one_concurrent_requests_is_429(api: Api, plan: str) -> None:
    caller = await api.caller("viewer", plan=plan)
    limit = api.settings.plans[plan].per_minute
    answers = await asyncio.gather(*(caller.get("/users/me") for _ in range(limit + 1)))
    assert sorted(answer.status_code for answer in answers) == [200] * limit + [429]
    left = sorted(window(answer)[1] for answer in answers if answer.status_code == 200)
    assert left == list(range(limit))


async def test_all_keys_of_an_account_share_its_windows(api: Api) -> None:
    first = await api.caller("viewer", plan=TINY)
    second = await api.caller(user=first.user)
    reading = await api.caller(user=first.user, key_type="read")
    for caller in (first, second, reading):
        assert (await caller.get("/users/me")).status_code == 200
    for caller in (first, second, reading):
        refused(await caller.get("/users/me"), 429)


async def test_a_change_of_plan_keeps_the_counts_and_holds_at_once(api: Api) -> None:
    caller = await api.caller("viewer", plan=TINY)
    for _ in range(3):
        await caller.get("/users/me")
    await set_plan(api.live, caller.user.email, "free", OPERATOR)
    assert window(await caller.get("/users/me")) == (30, 26, NOON_SECONDS + 60)
    await set_plan(api.live, caller.user.email, TINY, OPERATOR)
    answer = await caller.get("/users/me")
    refused(answer, 429)
    assert window(answer) == (3, 0, NOON_SECONDS + 60)
    await set_plan(api.live, caller.user.email, "free", OPERATOR)
    assert window(await caller.get("/users/me"))[1] == 25


async def exhaust(client: httpx.AsyncClient) -> None:
    for _ in range(30):
        refused(await client.get("/users/me"), 401)
    refused(await client.get("/users/me"), 429, "RATE_LIMITED")


async def test_unauthenticated_requests_count_by_address_on_free(api: Api) -> None:
    stranger = api.stranger("203.0.113.7:1000")
    assert window(await stranger.get("/users/me")) == (30, 29, NOON_SECONDS + 60)
    for number, headers in enumerate(
        ({"authorization": "Bearer sk_live_x"}, {"x-forwarded-for": "203.0.113.9"}, {})
    ):
        answer = await stranger.get("/nowhere", headers=headers)
        refused(answer, 401)
        assert window(answer)[1] == 28 - number
    other_port = api.stranger("203.0.113.7:2000")
    assert window(await other_port.get("/users/me"))[1] == 25
    assert window(await api.stranger("203.0.113.8:1000").get("/users/me"))[1] == 29


async def test_an_exhausted_address_lets_credentials_pass(api: Api) -> None:
    caller = await api.caller("viewer")
    await exhaust(api.stranger())  # the address that callers have too
    assert (await caller.get("/users/me")).status_code == 200


async def test_an_ipv6_network_of_64_bits_is_one_address(api: Api) -> None:
    await exhaust(api.stranger("[2001:db8:1:2::1]:1000"))
    for same in ("[2001:db8:1:2::1]:2", "[2001:db8:1:2:ffff::]:1", "[2001:0db8:1:2::5]:1"):
        refused(await api.stranger(same).get("/users/me"), 429)
    for other in ("[2001:db8:1:3::1]:1", "[::1]:1"):
        refused(await api.stranger(other).get("/users/me"), 401)


async def test_an_ipv6_network_of_48_bits_has_ten_times_as_much_together(api: Api) -> None:
    for number in range(10):
        network = f"[2001:db8:1:{number:x}::1]:1"
        await exhaust(api.stranger(network))
    answer = await api.stranger("[2001:db8:1:ffff::1]:1").get("/users/me")
    refused(answer, 429, "RATE_LIMITED")
    assert window(answer) == (300, 0, NOON_SECONDS + 60)
    refused(await api.stranger("[2001:db8:2::1]:1").get("/users/me"), 401)
    caller = await api.caller("viewer")
    transport = InProcess(api, "[2001:db8:1::1]:1")
    headers = [("authorization", f"Bearer {caller.key}")]
    assert (await transport.exchange("GET", "/v1/users/me", headers)).status_code == 200


async def test_an_ipv4_address_is_one_in_ipv6_form_too(api: Api) -> None:
    await exhaust(api.stranger("203.0.113.7:1"))
    refused(await api.stranger("[::ffff:203.0.113.7]:1").get("/users/me"), 429)
    refused(await api.stranger("[::ffff:203.0.113.8]:1").get("/users/me"), 401)


async def test_live_and_sandbox_count_apart(api: Api) -> None:
    live = await api.caller("admin", "live", plan=TINY)
    test = await api.caller("admin", "test", user=live.user)
    for _ in range(3):
        await live.get("/users/me")
    refused(await live.get("/users/me"), 429)
    assert window(await test.get("/users/me")) == (3, 2, NOON_SECONDS + 60)
    await exhaust(api.stranger())
    answer = await api.stranger().get("https://localhost:8443/sandbox/v1/users/me")
    refused(answer, 401)
    assert window(answer)[1] == 29


@pytest.mark.one_engine
async def test_the_health_of_the_service_is_outside_the_limits(api: Api) -> None:
    stranger = api.stranger()
    for _ in range(40):
        for path in ("/healthz", "/readyz", "/metrics"):
            answer = await stranger.get(f"https://localhost:8443{path}")
            assert answer.status_code == 200
            assert "x-ratelimit-limit" not in answer.headers
    assert window(await stranger.get("/users/me"))[1] == 29


async def status_after(api: Api, caller: Caller, now: int) -> int:
    api.clock.now = now
    return (await caller.get("/users/me")).status_code


async def test_counters_survive_a_restart(api: Api) -> None:
    caller = await api.caller("viewer", plan="free")
    stranger = api.stranger("203.0.113.7:1")
    for _ in range(10):
        await caller.get("/users/me")
        await stranger.get("/users/me")
    await api.stop()
    await api.start()
    assert window(await caller.get("/users/me"))[1] == 19
    assert window(await stranger.get("/users/me"))[1] == 19
    api.clock.advance(seconds=60 * 7)
    await api.stop()
    await api.start()
    await set_plan(api.live, caller.user.email, TINY, OPERATOR)
    refused(await caller.get("/users/me"), 429)  # eleven of the day's five


async def test_a_crash_forgets_less_than_a_second_of_counts(api: Api) -> None:
    caller = await api.caller("viewer", plan="free")
    for _ in range(10):
        await caller.get("/users/me")
    if isinstance(api.live.limiter, MemoryLimiter):
        with within(1.0):
            await eventually(lambda: api.live[RateCounters].since(0), "the flush")
    await api.crash()
    await api.start()
    assert window(await caller.get("/users/me"))[1] == 19


async def test_a_stop_while_counts_are_being_written_loses_none(api: Api) -> None:
    caller = await api.caller("viewer", plan="free")
    for _ in range(10):
        await caller.get("/users/me")
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with api.live.db.transaction() as tx:
            await tx.run("DELETE FROM rate_counters")
            entered.set()
            await leave.wait()

    holding = asyncio.create_task(hold())
    await entered.wait()
    if isinstance(api.live.limiter, MemoryLimiter):
        await eventually(lambda: api.live.db.pools()["write"].waiting, "the batch")
    stopping = asyncio.create_task(api.stop())
    await asyncio.sleep(0)
    leave.set()
    await holding
    await stopping
    await api.start()
    assert window(await caller.get("/users/me"))[1] == 19


@pytest.mark.one_engine
async def test_plain_http_uses_nothing_up(api: Api) -> None:
    transport = InProcess(api)
    for _ in range(40):
        refused(await transport.exchange("GET", "/v1/users/me", [], scheme="http"), 403)
    assert window(await api.stranger().get("/users/me"))[1] == 29
