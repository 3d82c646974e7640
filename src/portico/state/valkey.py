"""Rate counters in Valkey or Redis, shared by every worker and host of an environment."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

from valkey.asyncio import ConnectionPool, Valkey
from valkey.exceptions import NoScriptError, ReadOnlyError, ValkeyError

from portico.domain.errors import Unavailable
from portico.domain.guard import Entry
from portico.domain.limits import Plan, Verdict, judge, judge_all
from portico.domain.times import DAY, MINUTE
from portico.state import valkey_guard
from portico.state.callers import Caller, network_of, spelled
from portico.state.protocol import Claims, Guards

ANSWER_SECONDS = 1.0
"""How long the server may take for one exchange, a new connection included."""

SENT_AT_ONCE = 256
"""Bounds the time in which one exchange's answers are read and the event loop does nothing else."""

NO_ANSWER = "The store of the rate limits does not answer."
NO_WRITES = "The store of the rate limits takes no writes."

UNLIMITED = 2**53

# Every window has a key of its own, so that hosts whose clocks differ never empty each other's. A
# key outlives its window by at least the window's own length, for a clock that is set back.
TAKE = """
local answer = {1}
for i, key in ipairs(KEYS) do
    answer[i + 1] = tonumber(redis.call('GET', key) or 0)
    if answer[i + 1] >= tonumber(ARGV[i]) then answer[1] = 0 end
end
if answer[1] == 1 then
    for i, key in ipairs(KEYS) do
        answer[i + 1] = redis.call('INCR', key)
        if answer[i + 1] == 1 then redis.call('EXPIRE', key, i % 2 == 1 and 120 or 172800) end
    end
end
return answer
"""
TAKE_SHA = hashlib.sha1(TAKE.encode(), usedforsecurity=False).hexdigest()


class ValkeyLimiter:
    """One environment's rate counters in a Valkey or Redis server. Opens connections when they are
    needed, and new ones when the server has been away."""

    def __init__(self, url: str, environment: str, prefix: str = "portico") -> None:
        """`url` is `valkey://`, `valkeys://` (TLS), `redis://` or `rediss://`, with a password and
        a database where needed; its query takes the options of valkey-py, such as `ssl_ca_certs`.
        `prefix` begins every key, and `environment` follows. Raises ValueError, without the URL,
        for an impossible one.
        """
        tls = url.lower().startswith(("valkeys:", "rediss:"))
        try:
            # Any, here and below: valkey-py's types are those of its synchronous twin.
            pool: Any = ConnectionPool.from_url(
                url,
                socket_timeout=None,  # the whole exchange is bounded, at less cost than each step
                **({"ssl_check_hostname": True} if tls else {}),
            )
            pool.make_connection()  # only this reads the options; it connects to nothing
        except (TypeError, ValueError, ValkeyError):
            # The cause is cut off: it may quote a part of the URL, and so of its password.
            raise ValueError("the address of the Valkey server is not a usable URL") from None
        self._client: Any = Valkey.from_pool(pool)
        self._prefix = prefix
        self._environment = environment
        self._asked: list[tuple[asyncio.Future[Any], tuple[int | str, ...]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def take(self, caller: Caller, plan: Plan, now_ms: int) -> Verdict:
        """See `protocol.Limiter`."""
        keys = self._keys(caller, now_ms)
        admitted, minute_used, day_used = await self._ask(2, *keys, plan.per_minute, plan.per_day)
        return judge(plan, minute_used, day_used, now_ms, bool(admitted))

    async def take_all(self, claims: Claims, now_ms: int) -> Verdict:
        """See `protocol.Limiter`."""
        keys = [key for caller, _ in claims for key in self._keys(caller, now_ms)]
        limits = [limit for _, plan in claims for limit in (plan.per_minute, plan.per_day)]
        admitted, *used = await self._ask(len(keys), *keys, *limits)
        plans = [plan for _, plan in claims]
        uses = list(zip(plans, used[::2], used[1::2], strict=True))
        return judge_all(uses, now_ms, admitted=bool(admitted))

    async def used(self, caller: Caller, now_ms: int) -> tuple[int, int]:
        """See `protocol.Limiter`."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                minute, day = await self._client.mget(self._keys(caller, now_ms))
        except (ValkeyError, OSError) as error:  # TimeoutError is an OSError
            raise _unavailable(error) from error
        return int(minute or 0), int(day or 0)

    async def enter(self, guards: Guards, now_ms: int) -> Entry:
        """See `protocol.Limiter`."""
        wait = await self._run(
            valkey_guard.ENTER,
            [caller for caller, _ in guards],
            now_ms,
            *valkey_guard.terms(patience for _, patience in guards),
        )
        return Entry(admitted=wait < 0, wait=max(wait, 0))

    async def leave(self, guards: Guards, now_ms: int, *, has_failed: bool) -> None:
        """See `protocol.Limiter`."""
        await self._run(
            valkey_guard.LEAVE,
            [caller for caller, _ in guards],
            now_ms,
            int(has_failed),
            *valkey_guard.terms(patience for _, patience in guards),
        )

    async def forget(self, callers: Sequence[Caller]) -> None:
        """See `protocol.Limiter`."""
        await self._run(valkey_guard.FORGET, callers)

    async def probe(self) -> None:
        """See `protocol.Limiter`."""
        await self._ask(1, f"{self._prefix}:{{{self._environment}:probe}}", UNLIMITED)

    async def close(self) -> None:
        """See `protocol.Limiter`."""
        if self._sender is not None:
            await self._sender
        await self._client.aclose()

    async def _run(self, script: str, callers: Sequence[Caller], *arguments: int | str) -> int:
        """What a script of `valkey_guard` answers. All its keys are in one slot, as one script
        wants them; there are few attempts, so they are sent with the script's text."""
        slot = f"{self._prefix}:{{{self._environment}:guard}}"
        keys = [f"{slot}:{spelled(caller)}" for caller in callers]
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer: int = await self._client.eval(script, len(keys), *keys, *arguments)
        except (ValkeyError, OSError) as error:  # TimeoutError is an OSError
            raise _unavailable(error) from error
        return answer

    def _keys(self, caller: Caller, now_ms: int) -> tuple[str, str]:
        """The keys of the minute's and the day's count, in one slot with all that are asked for in
        one step: those of an address with those of its network."""
        kind, name = caller
        own = spelled(caller)
        network = network_of(str(name)) if kind.by_strangers else None
        slot = f"{self._prefix}:{{{self._environment}:{network or own}}}"
        owner = f"{slot}:{own}" if network else slot
        return f"{owner}:minute:{now_ms // MINUTE}", f"{owner}:day:{now_ms // DAY}"

    async def _ask(self, *arguments: int | str) -> list[int]:
        """What the server answers to `TAKE`. What is asked while it answers others is sent
        together, over one connection: under load that halves the time that a request takes."""
        told = asyncio.get_running_loop().create_future()
        self._asked.append((told, arguments))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send())
        answer: list[int] | Exception = await told
        if isinstance(answer, Exception):
            raise _unavailable(answer) from answer
        return answer

    async def _send(self) -> None:
        """Asks the server until nobody waits, and tells those who do: an answer, or why none."""
        while self._asked:
            asked, self._asked = self._asked[:SENT_AT_ONCE], self._asked[SENT_AT_ONCE:]
            answers: list[list[int] | Exception]
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    answers = await self._exchange([arguments for _, arguments in asked])
            except Exception as error:  # noqa: BLE001 — whatever it is, those who wait must be told
                # Who came in the meantime has no better prospects, and has waited as well.
                asked, self._asked = asked + self._asked, []
                answers = [error] * len(asked)
            for (told, _), answer in zip(asked, answers, strict=True):
                if not told.done():  # else the request was given up
                    told.set_result(answer)

    async def _exchange(self, asked: list[tuple[int | str, ...]]) -> list[list[int] | Exception]:
        """The server's answers to the script's arguments, each an answer or an error."""
        pipeline = self._client.pipeline(transaction=False)
        for arguments in asked:
            pipeline.execute_command("EVALSHA", TAKE_SHA, *arguments)
        answers: list[list[int] | Exception] = await pipeline.execute(raise_on_error=False)
        unknown = [i for i, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:  # a server that has just started
            await self._client.script_load(TAKE)
            again = await self._exchange([asked[i] for i in unknown])
            for i, answer in zip(unknown, again, strict=True):
                answers[i] = answer
        return answers


def _unavailable(error: Exception) -> Unavailable:
    """What to raise for an error of the server or of the way to it."""
    if isinstance(error, ReadOnlyError):  # of a replica
        return Unavailable(NO_WRITES, why="read_only")
    return Unavailable(NO_ANSWER)
