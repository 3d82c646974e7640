"""What holds for the counters in Valkey or Redis alone: many processes, outages, what is stored."""

import asyncio
import logging
import re
import time
import traceback
import uuid
from collections import Counter

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from valkey.asyncio import Valkey
from valkey.crc import key_slot

from answering import answering
from busy_machine import leave_time, within
from portico.core.errors import Unavailable
from portico.core.plans import Plan
from portico.limits.guard import Backoff
from portico.limits.memory import MemoryLimiter
from portico.limits.protocol import ACCOUNT, ADDRESS, GUARDED_ADDRESS, NETWORK, Caller
from portico.limits.valkey import SENT_AT_ONCE, ValkeyLimiter
from portico.limits.valkey_client import ANSWER_SECONDS
from servers import RedisServer

MINUTE, DAY = 60_000, 86_400_000
MIDNIGHT = 20_800 * DAY
PLAN = Plan("any", 100, 1_000)
VISITORS = 64  # concurrent requests


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


async def test_server_that_is_gone_is_unavailable_and_back_without_a_restart(
    own_server: RedisServer,
    valkey: ValkeyLimiter,
) -> None:
    assert (await valkey.take((ACCOUNT, 1), PLAN, MIDNIGHT)).admitted
    for _ in range(2):
        own_server.stop()
        refused = await asyncio.gather(
            *(valkey.take((ACCOUNT, 1), PLAN, MIDNIGHT) for _ in range(VISITORS)),
            valkey.probe(),
            return_exceptions=True,
        )
        assert {type(refusal) for refusal in refused} == {Unavailable}
        assert {getattr(refusal, "retry_after", None) for refusal in refused} == {1}
        own_server.start()
        await valkey.probe()
        # The server kept nothing; the counters are forgotten and start anew.
        assert (await valkey.take((ACCOUNT, 1), PLAN, MIDNIGHT)).remaining == PLAN.per_minute - 1


def test_process_that_stands_still_hears_what_was_answered_meanwhile(redis: RedisServer) -> None:
    async def stand_still() -> None:
        await asyncio.sleep(0)  # until all have asked
        time.sleep(ANSWER_SECONDS + 0.5)  # noqa: ASYNC251 - nothing else goes on either

    async def ask() -> None:
        limiter = ValkeyLimiter(redis.url, uuid.uuid4().hex)
        await asyncio.gather(
            limiter.take((ACCOUNT, 2), PLAN, MIDNIGHT),
            limiter.used((ACCOUNT, 2), MIDNIGHT),
            limiter.probe(),
            stand_still(),
        )
        await limiter.close()

    uvloop.run(ask())


async def test_server_that_hangs_is_unavailable_to_all_within_two_seconds(
    own_server: RedisServer, valkey: ValkeyLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await valkey.probe()
    monkeypatch.undo()
    many = 4 * SENT_AT_ONCE
    with own_server.frozen(), within(2):
        refused = await asyncio.gather(
            *(valkey.take((ACCOUNT, 1), PLAN, MIDNIGHT) for _ in range(many)),
            return_exceptions=True,
        )
    assert [type(refusal) for refusal in refused] == [Unavailable] * many
    leave_time(monkeypatch)
    verdict = await valkey.take((ACCOUNT, 2), PLAN, MIDNIGHT)
    assert verdict.remaining == PLAN.per_minute - 1


async def test_server_that_forgot_the_script_is_told_again(
    own_server: RedisServer, valkey: ValkeyLimiter
) -> None:
    await valkey.take((ACCOUNT, 1), PLAN, MIDNIGHT)
    async with Valkey.from_url(own_server.url) as client:
        await client.script_flush()
    assert (await valkey.take((ACCOUNT, 1), PLAN, MIDNIGHT)).remaining == PLAN.per_minute - 2


async def test_caller_has_two_keys_in_one_slot_that_vanish_after_their_windows(
    own_server: RedisServer,
    valkey: ValkeyLimiter,
) -> None:
    for _ in range(3):
        await valkey.take((ACCOUNT, 1), PLAN, MIDNIGHT)
    async with Valkey.from_url(own_server.url) as client:
        lifetimes = {key: await client.ttl(key) for key in await client.keys()}
    minute, day = (f"{{live:user:1}}:{end}".encode() for end in ("minute", "day"))
    assert len({key_slot(key) for key in lifetimes}) == 1
    ((minute_lifetime,), (day_lifetime,)) = (
        [seconds for key, seconds in lifetimes.items() if window in key] for window in (minute, day)
    )
    assert 60 < minute_lifetime <= 120
    assert 86_400 < day_lifetime <= 172_800


@pytest.mark.parametrize(
    ("broken", "mended", "why", "told"),
    [
        (("CONFIG SET", "maxmemory", 1), ("CONFIG SET", "maxmemory", 0), "full", "out of memory"),
        (
            ("ACL SETUSER", "default", "-get"),
            ("ACL SETUSER", "default", "+get"),
            "failing",
            "can't run this command|no permissions to run the 'get' command",
        ),
    ],
    ids=["no memory", "no permission within a script"],
)
async def test_server_that_refuses_is_told_from_a_silent_one_and_logged_once(
    own_server: RedisServer,
    valkey: ValkeyLimiter,
    caplog: pytest.LogCaptureFixture,
    broken: tuple[str, ...],
    mended: tuple[str, ...],
    why: str,
    told: str,
) -> None:
    caplog.set_level(logging.INFO, "portico.limits.valkey")
    async with Valkey.from_url(own_server.url) as client:
        await client.execute_command(*broken)
        for _ in range(3):
            with pytest.raises(Unavailable) as refusal:
                await valkey.take((ACCOUNT, 1), PLAN, MIDNIGHT)
            assert refusal.value.why == why
        await client.execute_command(*mended)
    for _ in range(2):
        await valkey.take((ACCOUNT, 1), PLAN, MIDNIGHT)
    failed, works = caplog.messages
    assert re.search(told, failed)
    assert works == "the store of the rate limits works again"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"$1\r\n1\r\n", ""),
        (b"*1\r\n" * 2_000 + b":1\r\n", ""),
        (b"*1\r\n*2\r\n:0\r\n:16383\r\n", "+cluster"),
        (b"-MOVED \r\n", "+cluster"),
        (b"220 mail.example.com\r\n", "+sentinel"),
    ],
    ids=["too little", "a deep list", "slots without a node", "moved nowhere", "another protocol"],
)
async def test_what_is_no_such_server_does_not_answer(answer: bytes, kind: str) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.read(65_536):
            greetings = request.count(b"CLIENT")
            writer.write(b"+OK\r\n" * greetings or answer)

    guards = [((GUARDED_ADDRESS, "192.0.2.1"), Backoff(1, DAY))]
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


async def test_password_is_in_no_error_and_in_no_log(
    own_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    secret = uuid.uuid4().hex
    async with Valkey.from_url(own_server.url) as client:
        await client.execute_command("CONFIG SET", "requirepass", "another")
    limiter = ValkeyLimiter(own_server.url.replace("redis://", f"redis://:{secret}@"), "live")
    for why in ("failing", "silent"):
        with pytest.raises(Unavailable) as refusal:
            await limiter.probe()
        assert refusal.value.why == why
        assert secret not in "".join(traceback.format_exception(refusal.value))
        own_server.stop()
    assert "invalid username-password pair" in caplog.text
    assert secret not in caplog.text + repr(limiter)
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
        ("valkey+cluster://:hunter2@h1,h2/3", "no databases"),
        ("valkey://:hunter2@h1,h2", "several hosts"),
        ("valkey+sentinel://:hunter2@h1,,h2/shop", "not a usable URL"),
        ("http://:hunter2@localhost", "not a usable URL"),
        ("valkey://:hun/hunter2@localhost:1", "not a usable URL"),
        ("valkey://:hunter2@localhost/shop", "not a usable URL"),
        ("valkey://:hunter2@localhost?socket_timeout=soon", "not a usable URL"),
    ],
)
def test_impossible_address_is_refused_without_showing_it(url: str, line: str) -> None:
    with pytest.raises(ValueError, match=line) as refusal:
        ValkeyLimiter(url, "live")
    assert "hun" not in "".join(traceback.format_exception(refusal.value)).replace(url, "")


async def test_installations_that_share_a_server_count_apart_by_their_prefix(
    own_server: RedisServer,
) -> None:
    async def fail(limiter: ValkeyLimiter) -> None:
        guards = [((GUARDED_ADDRESS, "192.0.2.1"), Backoff(1, DAY))]
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
