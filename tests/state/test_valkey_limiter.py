"""What holds for the counters in Valkey or Redis alone: many processes, outages, what is stored."""

import asyncio
import logging
import multiprocessing
import re
import time
import traceback
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
import pytest_asyncio
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from valkey.asyncio import Valkey
from valkey.crc import key_slot

from answering import answering
from busy_machine import leave_time, within
from portico.core.errors import Unavailable
from portico.core.plans import Plan
from portico.limits.guard import Patience
from portico.limits.memory import MemoryLimiter
from portico.limits.protocol import ACCOUNT, ADDRESS, GUARDED_ADDRESS, NETWORK, Caller
from portico.limits.valkey import SENT_AT_ONCE, ValkeyLimiter
from portico.limits.valkey_client import ANSWER_SECONDS
from servers import RedisServer, redis_server

MINUTE, DAY = 60_000, 86_400_000
MIDNIGHT = 20_800 * DAY
PLAN = Plan("any", 100, 1_000)
PROCESSES = 4
VISITORS = 64  # concurrent requests


@pytest_asyncio.fixture
async def limiter(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ValkeyLimiter]:
    leave_time(monkeypatch)
    opened = ValkeyLimiter(redis.url, uuid.uuid4().hex)
    yield opened
    await opened.close()


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    leave_time(monkeypatch)
    with redis_server() as server:
        yield server


def requests_of_one_process(url: str, environment: str) -> Counter[tuple[str, int]]:
    """Makes 5,000 requests: half of a caller whose minutes are short, over five minutes, half of
    one whose days are, over two days. Returns how many were admitted in each of those windows."""
    plans = {"minute": Plan("by minute", 1_400, 10**9), "day": Plan("by day", 10**9, 4_000)}
    admitted: Counter[tuple[str, int]] = Counter()
    requests = iter(
        [("minute", MIDNIGHT + number % 5 * MINUTE) for number in range(2_500)]
        + [("day", MIDNIGHT + number % 2 * DAY + number * 1_000) for number in range(2_500)]
    )

    async def visitor(limiter: ValkeyLimiter) -> None:
        for kind, now_ms in requests:
            verdict = await limiter.take((ACCOUNT, kind), plans[kind], now_ms)
            window = now_ms // (MINUTE if kind == "minute" else DAY)
            admitted[kind, window] += verdict.admitted

    async def visit() -> None:
        limiter = ValkeyLimiter(url, environment)
        await asyncio.gather(*(visitor(limiter) for _ in range(VISITORS)))
        await limiter.close()

    with pytest.MonkeyPatch.context() as patch:
        leave_time(patch)
        uvloop.run(visit())
    return admitted


def test_processes_together_are_admitted_exactly_to_the_limit(redis: RedisServer) -> None:
    environment = uuid.uuid4().hex
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, fresh) as pool:
        runs = [
            pool.submit(requests_of_one_process, redis.url, environment) for _ in range(PROCESSES)
        ]
        admitted = sum((run.result() for run in runs), Counter[tuple[str, int]]())
    minutes = {("minute", MIDNIGHT // MINUTE + number): 1_400 for number in range(5)}
    days = {("day", MIDNIGHT // DAY + number): 4_000 for number in range(2)}
    assert admitted == minutes | days


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([(ACCOUNT, 1), (ADDRESS, "192.0.2.1")]),
            st.sampled_from([Plan("small", 2, 3), Plan("large", 3, 9)]),
            st.sampled_from([0, 0, 999, 20_000, MINUTE, DAY]),
        ),
        max_size=60,
    )
)
def test_both_stores_give_the_same_verdicts(
    redis: RedisServer, requests: list[tuple[Caller, Plan, int]]
) -> None:
    async def compare() -> None:
        memory, valkey = MemoryLimiter(), ValkeyLimiter(redis.url, uuid.uuid4().hex)
        now_ms = MIDNIGHT
        for caller, plan, milliseconds in requests:
            now_ms += milliseconds
            verdict = await memory.take(caller, plan, now_ms)
            assert await valkey.take(caller, plan, now_ms) == verdict
        await valkey.close()

    asyncio.run(compare())


async def test_a_server_that_is_gone_is_unavailable_and_back_without_a_restart(
    own_server: RedisServer,
) -> None:
    limiter = ValkeyLimiter(own_server.url, "live")
    assert (await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)).admitted
    for _ in range(2):
        own_server.stop()
        refused = await asyncio.gather(
            *(limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT) for _ in range(VISITORS)),
            limiter.probe(),
            return_exceptions=True,
        )
        assert {type(refusal) for refusal in refused} == {Unavailable}
        assert {getattr(refusal, "retry_after", None) for refusal in refused} == {1}
        own_server.start()
        await limiter.probe()
        # The server kept nothing; the counters are forgotten and start anew.
        assert (await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)).remaining == PLAN.per_minute - 1
    await limiter.close()


@pytest.mark.parametrize("before", [0, 1], ids=["anew", "connected"])
def test_a_process_that_stands_still_hears_what_was_answered_meanwhile(
    redis: RedisServer, before: int
) -> None:
    async def stand_still() -> None:
        await asyncio.sleep(0)  # until all have asked
        time.sleep(ANSWER_SECONDS + 0.5)  # noqa: ASYNC251 - nothing else goes on either

    async def ask() -> None:
        limiter = ValkeyLimiter(redis.url, uuid.uuid4().hex)
        for _ in range(before):
            await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
        await asyncio.gather(
            limiter.take((ACCOUNT, 2), PLAN, MIDNIGHT),
            limiter.used((ACCOUNT, 2), MIDNIGHT),
            limiter.probe(),
            stand_still(),
        )
        await limiter.close()

    uvloop.run(ask())


async def test_a_server_that_hangs_is_unavailable_to_all_within_two_seconds(
    own_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter = ValkeyLimiter(own_server.url, "live")
    await limiter.probe()
    monkeypatch.undo()
    many = 4 * SENT_AT_ONCE
    with own_server.frozen(), within(2):
        refused = await asyncio.gather(
            *(limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT) for _ in range(many)),
            return_exceptions=True,
        )
    assert [type(refusal) for refusal in refused] == [Unavailable] * many
    leave_time(monkeypatch)
    verdict = await limiter.take((ACCOUNT, 2), PLAN, MIDNIGHT)
    assert verdict.remaining == PLAN.per_minute - 1
    await limiter.close()


async def test_more_requests_than_are_sent_at_once_are_all_answered(
    limiter: ValkeyLimiter,
) -> None:
    many = 3 * SENT_AT_ONCE + 1
    plan = Plan("any", many, many)
    verdicts = await asyncio.gather(
        *(limiter.take((ACCOUNT, 1), plan, MIDNIGHT) for _ in range(many))
    )
    assert sorted(verdict.remaining for verdict in verdicts) == list(range(many))


async def test_requests_that_are_given_up_do_not_hold_up_others(limiter: ValkeyLimiter) -> None:
    for turns in range(8):
        given_up = [
            asyncio.create_task(limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)) for _ in range(VISITORS)
        ]
        for _ in range(turns):
            await asyncio.sleep(0)  # lets the event loop go round once
        for request in given_up:
            request.cancel()
        async with asyncio.timeout(20):
            verdict = await limiter.take((ACCOUNT, f"after {turns}"), PLAN, MIDNIGHT)
        assert verdict.remaining == PLAN.per_minute - 1
        await asyncio.gather(*given_up, return_exceptions=True)


async def test_a_server_that_forgot_the_script_is_told_again(
    redis: RedisServer, limiter: ValkeyLimiter
) -> None:
    await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
    async with Valkey.from_url(redis.url) as client:
        await client.script_flush()
    assert (await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)).remaining == PLAN.per_minute - 2


async def test_a_caller_has_two_keys_in_one_slot_that_vanish_after_their_windows(
    own_server: RedisServer,
) -> None:
    limiter = ValkeyLimiter(own_server.url, "live")
    for _ in range(3):
        await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
    async with Valkey.from_url(own_server.url) as client:
        lifetimes = {key: await client.ttl(key) for key in await client.keys()}
    minute, day = (f"{{live:user:1}}:{end}".encode() for end in ("minute", "day"))
    assert len({key_slot(key) for key in lifetimes}) == 1
    ((minute_lifetime,), (day_lifetime,)) = (
        [seconds for key, seconds in lifetimes.items() if window in key] for window in (minute, day)
    )
    assert 60 < minute_lifetime <= 120
    assert 86_400 < day_lifetime <= 172_800
    await limiter.close()


@pytest.mark.parametrize(
    ("broken", "mended", "why", "told"),
    [
        (("CONFIG SET", "maxmemory", 1), ("CONFIG SET", "maxmemory", 0), "full", "out of memory"),
        (
            ("ACL SETUSER", "default", "-evalsha"),
            ("ACL SETUSER", "default", "+evalsha"),
            "failing",
            "no permissions to run the 'evalsha' command",
        ),
        (
            ("ACL SETUSER", "default", "-get"),
            ("ACL SETUSER", "default", "+get"),
            "failing",
            "can't run this command|no permissions to run the 'get' command",
        ),
    ],
    ids=["no memory", "no permission", "no permission within a script"],
)
async def test_a_server_that_refuses_is_told_from_a_silent_one_and_logged_once(
    own_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    broken: tuple[str, ...],
    mended: tuple[str, ...],
    why: str,
    told: str,
) -> None:
    caplog.set_level(logging.INFO, "portico.limits.valkey")
    limiter = ValkeyLimiter(own_server.url, "live")
    async with Valkey.from_url(own_server.url) as client:
        await client.execute_command(*broken)
        for _ in range(3):
            with pytest.raises(Unavailable) as refusal:
                await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
            assert refusal.value.why == why
        await client.execute_command(*mended)
    for _ in range(2):
        await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
    failed, works = caplog.messages
    assert re.search(told, failed)
    assert works == "the store of the rate limits works again"
    await limiter.close()


async def test_of_refusals_that_take_turns_each_is_logged_once(
    own_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "portico.limits.valkey")
    limiter = ValkeyLimiter(own_server.url, "live")
    async with Valkey.from_url(own_server.url) as client:
        await client.execute_command("CONFIG SET", "requirepass", "unknown here")
        for count in (1, 20, 1, 20):  # Redis before 8 refuses long commands in other words
            verdicts = await asyncio.gather(
                *(limiter.take((ACCOUNT, number), PLAN, MIDNIGHT) for number in range(count)),
                return_exceptions=True,
            )
            assert all(isinstance(verdict, Unavailable) for verdict in verdicts)
        await client.execute_command("CONFIG SET", "requirepass", "")
    for _ in range(2):
        await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
    *refusals, works = caplog.messages
    assert len(refusals) == len({*refusals}) <= 2
    assert refusals
    assert works == "the store of the rate limits works again"
    await limiter.close()


@pytest.mark.parametrize("window", [0, 1], ids=["minute", "day"])
@pytest.mark.parametrize("foreign", ["a list", "abc", "", "1.5", "1e3", "0x1F", "007", " 5", "-5"])
async def test_a_foreign_key_refuses_whose_it_is_and_nobody_else(
    own_server: RedisServer, caplog: pytest.LogCaptureFixture, foreign: str, window: int
) -> None:
    limiter = ValkeyLimiter(own_server.url, "live")
    async with Valkey.from_url(own_server.url) as client:
        await limiter.take((ACCOUNT, 7), PLAN, MIDNIGHT)
        keys = sorted(await client.keys(), reverse=True)  # the minute's, and the day's
        await client.delete(keys[window])
        if foreign == "a list":
            await client.lpush(keys[window], 1)
        else:
            await client.set(keys[window], foreign)
        before = [await client.dump(key) for key in keys]
        for left in (99, 98):
            verdicts = await asyncio.gather(
                *(limiter.take((ACCOUNT, number), PLAN, MIDNIGHT) for number in range(20)),
                return_exceptions=True,
            )
            refusal = verdicts.pop(7)
            assert isinstance(refusal, Unavailable)
            assert refusal.why == "failing"
            assert {getattr(verdict, "remaining", None) for verdict in verdicts} == {left}
        assert [await client.dump(key) for key in keys] == before
    (told,) = caplog.messages
    assert keys[window].decode() in told
    await limiter.close()


async def test_a_foreign_key_that_is_only_looked_at_is_a_refusal_too(
    own_server: RedisServer,
) -> None:
    limiter = ValkeyLimiter(own_server.url, "live")
    async with Valkey.from_url(own_server.url) as client:
        await limiter.take((ADDRESS, "192.0.2.1"), PLAN, MIDNIGHT)
        for key in await client.keys():
            await client.set(key, "abc")
    with pytest.raises(Unavailable) as refusal:
        await limiter.used((ADDRESS, "192.0.2.1"), MIDNIGHT)
    assert refusal.value.why == "failing"
    await limiter.close()


@pytest.mark.parametrize("kind", ["", "+cluster", "+sentinel"])
@pytest.mark.parametrize(
    "answer",
    [b"+OK\r\n", b"$0\r\n\r\n", b"$1\r\n1\r\n", b":one\r\n", b"*0\r\n", b"$-1\r\n",
     b"*1\r\n" * 2_000 + b":1\r\n", b"*1\r\n*2\r\n:0\r\n:16383\r\n", b"-MOVED \r\n",
     b"220 mail.example.com\r\n"],
    ids=["OK", "nothing", "too little", "no number", "a list", "null", "a deep list",
         "slots without a node", "moved nowhere", "another protocol"],
)  # fmt: skip
async def test_what_is_no_such_server_does_not_answer(answer: bytes, kind: str) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.read(65_536):
            greetings = request.count(b"CLIENT")
            writer.write(b"+OK\r\n" * greetings or answer)

    guards = [((GUARDED_ADDRESS, "192.0.2.1"), Patience(1, DAY))]
    async with answering(say) as port:
        path = "/primary" if kind == "+sentinel" else ""
        limiter = ValkeyLimiter(f"valkey{kind}://127.0.0.1:{port}{path}", "live")
        asks = [
            lambda: limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT),
            lambda: limiter.take_all([((ACCOUNT, 1), PLAN)], MIDNIGHT),
            lambda: limiter.used((ACCOUNT, 1), MIDNIGHT),
            lambda: limiter.enter(guards, MIDNIGHT),
            lambda: limiter.leave(guards, MIDNIGHT, entered_ms=MIDNIGHT, has_failed=True),
            limiter.probe,
        ]
        for ask in asks:
            async with asyncio.timeout(20):
                with pytest.raises(Unavailable):
                    await ask()
        await limiter.close()


async def test_a_refusal_of_the_server_closes_no_connection(own_server: RedisServer) -> None:
    limiter = ValkeyLimiter(own_server.url, "live")
    guards = [((GUARDED_ADDRESS, "192.0.2.1"), Patience(1, DAY))]
    async with Valkey.from_url(own_server.url) as client:

        async def connections() -> int:
            return int((await client.info("stats"))["total_connections_received"])

        await limiter.enter(guards, MIDNIGHT)
        (guard,) = await client.keys()
        before = await connections()
        await client.delete(guard)
        await client.lpush(guard, "no hash")
        with pytest.raises(Unavailable):
            await limiter.enter(guards, MIDNIGHT)
        await client.config_set("maxmemory", 1)
        with pytest.raises(Unavailable):
            await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
        await client.config_set("maxmemory", 0)
        await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
        assert await connections() == before
    await limiter.close()


async def test_a_wrong_password_is_a_refusal_and_is_not_logged(
    own_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    secret = uuid.uuid4().hex
    async with Valkey.from_url(own_server.url) as client:
        await client.execute_command("CONFIG SET", "requirepass", "another")
    limiter = ValkeyLimiter(own_server.url.replace("redis://", f"redis://:{secret}@"), "live")
    with pytest.raises(Unavailable) as refusal:
        await limiter.probe()
    assert refusal.value.why == "failing"
    assert "invalid username-password pair" in caplog.text
    assert secret not in caplog.text
    await limiter.close()


async def test_no_error_tells_the_password(own_server: RedisServer) -> None:
    secret = uuid.uuid4().hex
    address = own_server.url.replace("redis://", f"redis://:{secret}@")
    limiter = ValkeyLimiter(address, "live")  # the server knows no password and says so
    for stop in (False, True):
        if stop:
            own_server.stop()
        with pytest.raises(Unavailable) as refusal:
            await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
        assert secret not in "".join(traceback.format_exception(refusal.value))
        assert secret not in repr(limiter)
    await limiter.close()


@pytest.mark.parametrize("scheme", ["valkey", "valkeys", "redis", "rediss"])
async def test_every_scheme_is_understood(scheme: str) -> None:
    for rest in (
        "://user:word@localhost:6390/3",
        "+sentinel://user:word@h1,[::1]:26380/shop?db=3&sentinel_password=other",
        "+cluster://user:word@h1,h2:6380",
    ):
        await ValkeyLimiter(f"{scheme}{rest}", "live").close()


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("valkey+sentinel://:hunter2@h1,h2", "primary's name"),
        ("valkey+sentinel://:hunter2@h1,h2/shop/3", "primary's name"),
        ("valkey+cluster://:hunter2@h1,h2/3", "no databases"),
        ("valkey+cluster://:hunter2@h1,h2?db=3", "no databases"),
        ("valkey://:hunter2@h1,h2", "several hosts"),
        ("valkey+sentinel://:hunter2@h1,,h2/shop", "not a usable URL"),
        ("valkey+clusters://:hunter2@h1", "not a usable URL"),
    ],
)
def test_an_address_of_several_hosts_is_told_what_it_lacks(url: str, line: str) -> None:
    with pytest.raises(ValueError, match=line) as refusal:
        ValkeyLimiter(url, "live")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://:hunter2@localhost",
        "valkey://:hun/hunter2@localhost:1",
        "valkey://:hunter2@localhost:70000",
        "valkey://:hunter2@localhost/shop",
        "valkey://:hunter2@localhost/0/1",
        "valkey://:hunter2@localhost?no_such_option=1",
        "valkey://:hunter2@localhost?socket_timeout=soon",
    ],
)
def test_an_impossible_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="not a usable URL") as refusal:
        ValkeyLimiter(url, "live")
    assert "hun" not in "".join(traceback.format_exception(refusal.value)).replace(url, "")


async def test_installations_that_share_a_server_count_apart_by_their_prefix(
    own_server: RedisServer,
) -> None:
    async def fail(limiter: ValkeyLimiter) -> None:
        guards = [((GUARDED_ADDRESS, "192.0.2.1"), Patience(1, DAY))]
        assert (await limiter.enter(guards, MIDNIGHT)).admitted
        await limiter.leave(guards, MIDNIGHT, entered_ms=MIDNIGHT, has_failed=True)
        assert not (await limiter.enter(guards, MIDNIGHT)).admitted

    one = Plan("one", 1, 1)
    for prefix in ("portico", "shop:eu"):
        limiter = ValkeyLimiter(own_server.url, "live", prefix)
        assert (await limiter.take((ACCOUNT, 1), one, MIDNIGHT)).admitted
        assert not (await limiter.take((ACCOUNT, 1), one, MIDNIGHT)).admitted
        claims = [((ADDRESS, "2001:db8::1"), one), ((NETWORK, "2001:db8::"), one)]
        assert (await limiter.take_all(claims, MIDNIGHT)).admitted
        assert not (await limiter.take_all(claims, MIDNIGHT)).admitted
        await fail(limiter)
        await limiter.probe()
        await limiter.close()
    async with Valkey.from_url(own_server.url) as client:
        keys = [key.decode() async for key in client.scan_iter()]
    beginnings = Counter(key.partition(":{")[0] for key in keys)
    assert beginnings.keys() == {"portico", "shop:eu"}
    assert len(set(beginnings.values())) == 1
