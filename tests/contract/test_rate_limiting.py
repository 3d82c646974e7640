"""Both windows of a plan, on every response (specification §8; decisions §8)."""

import asyncio
from typing import Any

import httpx
import pytest

from busy_machine import within
from driving import EVEN, NOON, TINY, Api, InProcess, refused
from operating import eventually
from owned import set_plan
from portico.core.audit import OPERATOR
from portico.features.operations.requests import RateCounters
from portico.limits.memory import MemoryLimiter

LAMP = {"name": "Lamp", "category": "light", "price": 1}
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

    tag = (await caller.get(where)).headers["etag"]
    requests: list[tuple[int, str, str, dict[str, Any]]] = [
        (200, "GET", "/users/me", {}),
        (200, "HEAD", "/users/me", {}),
        (200, "PATCH", "/users/me", {"json": {}}),
        (201, "POST", "/products", {"json": LAMP}),
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
        (415, "POST", "/products", {"content": b"x"}),
        (422, "POST", "/products", {"json": LAMP | {"price": -1}}),
        (500, "PATCH", f"/products/{broken.id}", {"json": {"name": "Other"}}),
    ]
    for number, (status, method, path, more) in enumerate(requests):
        answer = await caller.request(method, path, **more)
        assert answer.status_code == status, (method, path)
        assert window(answer) == (100, 98 - number, NOON_SECONDS + 60), (method, path)


async def test_a_minute_admits_its_number_and_then_refuses_without_counting(api: Api) -> None:
    caller = await api.caller("editor", plan=TINY)
    for remaining in (2, 1, 0):
        assert window(await caller.get("/users/me")) == (3, remaining, NOON_SECONDS + 60)
    async with api.unchanged():
        for milliseconds, wait in ((18_500, "42"), (41_499, "1")):
            api.clock.advance(milliseconds=milliseconds)
            answer = await caller.post("/products", json=LAMP)
            refused(answer, 429, "RATE_LIMITED")
            assert window(answer) == (3, 0, NOON_SECONDS + 60)
            assert answer.headers["retry-after"] == wait
            seconds = f"{wait} second{'' if wait == '1' else 's'}"
            message = f"Too many requests; try again in {seconds}."
            assert answer.json()["error"]["message"] == message
    api.clock.now = NOON + MINUTE
    # Three of the day's five are used; the refusals are not among them.
    assert window(await caller.get("/users/me")) == (5, 1, MIDNIGHT_SECONDS)


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


async def test_of_two_windows_that_end_alike_the_caller_is_told_the_later(api: Api) -> None:
    caller = await api.caller("viewer", plan=EVEN)
    assert window(await caller.get("/users/me")) == (5, 4, MIDNIGHT_SECONDS)
    for _ in range(4):
        await caller.get("/users/me")
    assert (await caller.get("/users/me")).headers["retry-after"] == str(43_200)


async def test_one_of_limit_plus_one_concurrent_requests_is_429(api: Api) -> None:
    caller = await api.caller("viewer", plan="free")
    limit = api.settings.plans["free"].per_minute
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


@pytest.mark.one_engine
async def test_an_ipv6_network_of_64_bits_and_an_ipv4_address_in_both_forms_are_one_address(
    api: Api,
) -> None:
    for first, same, others in (
        ("[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff::]:2", ("[2001:db8:1:3::1]:1", "[::1]:1")),
        ("203.0.113.7:1", "[::ffff:203.0.113.7]:1", ("[::ffff:203.0.113.8]:1",)),
    ):
        await exhaust(api.stranger(first))
        refused(await api.stranger(same).get("/users/me"), 429)
        for other in others:
            refused(await api.stranger(other).get("/users/me"), 401)


@pytest.mark.one_engine
async def test_an_ipv6_network_of_48_bits_has_ten_times_as_much_together(api: Api) -> None:
    for number in range(10):
        await exhaust(api.stranger(f"[2001:db8:1:{number:x}::1]:1"))
    answer = await api.stranger("[2001:db8:1:ffff::1]:1").get("/users/me")
    refused(answer, 429, "RATE_LIMITED")
    assert window(answer) == (300, 0, NOON_SECONDS + 60)
    refused(await api.stranger("[2001:db8:2::1]:1").get("/users/me"), 401)
    caller = await api.caller("viewer")
    transport = InProcess(api, "[2001:db8:1::1]:1")  # whose credentials still pass
    headers = [("authorization", f"Bearer {caller.key}")]
    assert (await transport.exchange("GET", "/v1/users/me", headers)).status_code == 200


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
async def test_health_and_plain_http_use_nothing_up(api: Api) -> None:
    stranger = api.stranger()
    for _ in range(31):
        refused(await InProcess(api).exchange("GET", "/v1/users/me", [], scheme="http"), 403)
        for path in ("/healthz", "/readyz", "/metrics"):
            answer = await stranger.get(f"https://localhost:8443{path}")
            assert answer.status_code == 200
            assert "x-ratelimit-limit" not in answer.headers
    assert window(await stranger.get("/users/me"))[1] == 29


@pytest.mark.parametrize("how", ["stop", "crash"])
async def test_counters_survive_a_stop_and_a_crash_a_second_later(api: Api, how: str) -> None:
    caller = await api.caller("viewer", plan="free")
    for _ in range(10):
        await caller.get("/users/me")
    if how == "stop":
        await api.stop()
    else:
        if isinstance(api.live.limiter, MemoryLimiter):
            with within(1.0):
                await eventually(lambda: api.live[RateCounters].since(0), "the flush")
        await api.crash()
    await api.start()
    assert window(await caller.get("/users/me"))[1] == 19
    api.clock.advance(seconds=60 * 7)
    await set_plan(api.live, caller.user.email, TINY, OPERATOR)
    refused(await caller.get("/users/me"), 429)  # eleven of the day's five
