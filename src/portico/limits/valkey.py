"""What every worker and host of an environment shares in Valkey or Redis: its rate counters, and
the positions of its callers' last writes."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from valkey.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    ValkeyError,
)

from portico.core.errors import FAILING, Unavailable
from portico.core.plans import UNLIMITED, Plan, Use, Verdict, judge, judge_all
from portico.core.times import DAY, MINUTE, month_of
from portico.data.database import in_time
from portico.limits.guard import HELD, Backoff, GuardEntry
from portico.limits.protocol import ACCOUNT, LIMITED, Caller, Claims, Guards, network_of, spelled
from portico.limits.valkey_client import (
    ANSWER_SECONDS,
    PASSING,
    Command,
    answer_of,
    readable,
    recover,
    store,
)

_READ = (
    f"local held = {HELD}"
    """
local now = tonumber(ARGV[1])
local function read(key, window)
    local kept = redis.call('HMGET', key, 'failures', 'ends', 'begun')
    local failures, ends, begun = tonumber(kept[1]), tonumber(kept[2]), {}
    for time in string.gmatch(kept[3] or '', '%d+') do
        if now - time < held then begun[#begun + 1] = time end
    end
    if not ends or ends <= now then
        return 0, begun, now + window
    end
    return failures, begun, ends
end
local function write(key, failures, begun, ends)
    redis.call('HSET', key, 'failures', failures, 'ends', ends, 'begun', table.concat(begun, ' '))
    redis.call('PEXPIRE', key, ends - now + held)
end
"""
)

ENTER = (
    _READ
    + """
local wait, busy, kept = 0, false, {}
for i, key in ipairs(KEYS) do
    local free, window, waits = unpack(ARGV, i * 3 - 1, i * 3 + 1)
    local failures, begun, ends = read(key, tonumber(window))
    local places = free - failures
    if places <= 0 then
        local left = ends - now
        if waits ~= '' then left = left - window end
        if wait == 0 then wait = math.max(0, left) end
        places = 1
    end
    busy = busy or #begun >= places
    begun[#begun + 1] = ARGV[1]
    kept[i] = {failures, begun, ends}
end
if wait > 0 or busy then return wait end
for i, key in ipairs(KEYS) do write(key, unpack(kept[i])) end
return -1
"""
)
"""Arguments: the time, then the terms of every key. Returns -1 if admitted, else how many
milliseconds to wait."""

LEAVE = (
    _READ
    + """
local failed = ARGV[2] == '1'
for i, key in ipairs(KEYS) do
    local free, window, listed = unpack(ARGV, i * 3 + 1, i * 3 + 3)
    free, window = tonumber(free), tonumber(window)
    local failures, begun, ends = read(key, window)
    for place, time in ipairs(begun) do
        if time == ARGV[3] then table.remove(begun, place) break end
    end
    if failed then
        failures = failures + 1
        if failures == 1 then ends = now + window end
        local waits = {}
        for wait in string.gmatch(listed, '%d+') do waits[#waits + 1] = tonumber(wait) end
        if #waits > 0 and failures >= free then
            ends = now + waits[math.min(failures - free + 1, #waits)] + window
        end
    end
    if failures == 0 and #begun == 0 then
        redis.call('DEL', key)
    else
        write(key, failures, begun, ends)
    end
end
return 0
"""
)
"""Arguments: the time, 1 for a failure or 0, when the attempt began, then the terms of every
key."""

FORGET = """
for _, key in ipairs(KEYS) do
    if redis.call('EXISTS', key) == 1 then redis.call('HSET', key, 'failures', 0) end
end
return 0
"""


def terms(backoffs: Iterable[Backoff]) -> Iterator[int | str]:
    """The script arguments of each: free failures, window, waits."""
    for backoff in backoffs:
        yield backoff.free
        yield backoff.window
        yield " ".join(map(str, backoff.waits))


SENT_AT_ONCE = 256
"""The most requests in one exchange. Reading its answers blocks the event loop."""

NO_ANSWER = "The store of the rate limits does not answer."
NO_WRITES = "The store of the rate limits accepts no writes."
IS_FULL = "The store of the rate limits is out of memory."
REFUSES = "The store of the rate limits rejects commands."
IS_CLUSTER = "The store of the rate limits is a cluster: begin valkey_url with valkey+cluster://."

log = logging.getLogger(__name__)

# Every window has its own key, so that hosts whose clocks differ do not reset each other's counts.
#
# One call counts many requests in turn. The first argument has the windows of each request's keys
# as letters (m, d, y: minute, day, calendar month), with what it takes from each if that is not 1,
# as in `md mdy7,7,7`; the others are the limits by key. All answers are in one text: per request 1
# (admitted) or 0 (refused), then the count of each key. A call and a reply per request would cost
# the client more than all its other work.
TAKE = """
local answer, last = {}, 0
local kept_for = {m = 120, d = 172800, y = 2764800}
for windows, taken in string.gmatch(ARGV[1], '(%a+)([%d,]*)') do
    local first, admitted, used, costs = last + 1, 1, {}, {}
    for cost in string.gmatch(taken, '%d+') do
        last = last + 1
        costs[last] = tonumber(cost)
    end
    last = first + #windows - 1
    for i = first, last do
        local cost = costs[i] or 1
        used[i] = tonumber(redis.call('GET', KEYS[i]) or 0)
        if cost > 0 and used[i] + cost > tonumber(ARGV[i + 1]) then admitted = 0 end
    end
    answer[#answer + 1] = admitted
    for i = first, last do
        local cost = costs[i] or 1
        if admitted == 1 and cost > 0 then
            used[i] = redis.call('INCRBY', KEYS[i], cost)
            if used[i] == cost then
                local window = string.sub(windows, i - first + 1, i - first + 1)
                redis.call('EXPIRE', KEYS[i], kept_for[window])
            end
        end
        answer[#answer + 1] = string.format('%d', used[i])
    end
end
return table.concat(answer, ' ')
"""
TAKE_SHA = hashlib.sha1(TAKE.encode(), usedforsecurity=False).hexdigest()

ABOUT = """
local said = redis.pcall('INFO', 'server')  -- which rights without @dangerous forbid
return {said.err and '' or said, redis.call('TIME')}"""


class Question(NamedTuple):
    """What `TAKE` needs for one request: its keys, the limit of each, and the letters of their
    windows, followed by what the request takes from each unless that is 1."""

    keys: Sequence[str]
    limits: Sequence[int]
    windows: str = "md"


class About(NamedTuple):
    """Facts about the server. `now` is its clock in epoch milliseconds; `version` is empty if it
    does not say."""

    name: str
    version: str
    now: int


class _Queue:
    """The questions that wait for one server, and the task that sends them."""

    def __init__(self) -> None:
        self.asked: list[tuple[asyncio.Future[Any], Question]] = []
        self.sender: asyncio.Task[None] | None = None
        self._reasons: set[str] = set()
        """The reasons for not counting that were logged since the server last worked."""

    def log_reason(self, reason: str) -> None:
        """Logs why the server does not count; an empty reason means that it works. Each reason is
        logged once until it works, since several may alternate: a wrong login has two messages."""
        if reason and reason not in self._reasons:
            self._reasons.add(reason)
            log.warning("requests cannot be counted: %s", reason)
        elif not reason and self._reasons:
            self._reasons.clear()
            log.info("the store of the rate limits works again")


class ValkeyLimiter:
    """One environment's rate counters in a Valkey or Redis server, or a cluster. Connects when
    first needed, and again after the server was away."""

    def __init__(self, url: str, environment: str, prefix: str = "portico") -> None:
        """`url` is as for `valkey_client.store`. Every key begins with `prefix` and `environment`.
        Raises ValueError for an unusable URL, without quoting it."""
        self._store = store(url)
        self._prefix = prefix
        self._environment = environment
        self._queues: dict[str, _Queue] = {}

    async def take(self, caller: Caller, plan: Plan, now_ms: int) -> Verdict:
        if plan.per_month is not None:
            return await self.take_all([(caller, plan)], now_ms)
        keys = self._keys(caller, now_ms)
        limits = (plan.per_minute, plan.per_day)
        admitted, minute_used, day_used = await self._ask(Question(keys, limits))
        return judge(plan, minute_used, day_used, now_ms, bool(admitted))

    async def take_all(
        self, claims: Claims, now_ms: int, costs: Sequence[int] | None = None
    ) -> Verdict:
        costs = costs or [1] * len(claims)
        keys: list[str] = []
        limits: list[int] = []
        letters: list[str] = []
        taken: list[str] = []
        for (caller, plan), cost in zip(claims, costs, strict=True):
            keys += self._keys(caller, now_ms)
            limits += (plan.per_minute, plan.per_day)
            letters.append("md" if plan.per_month is None else "mdy")
            if plan.per_month is not None:
                keys.append(f"{self._owner(caller)}:month:{month_of(now_ms)}")
                limits.append(plan.per_month)
            taken += [str(cost)] * len(letters[-1])
        windows = "".join(letters) + ("" if set(taken) == {"1"} else ",".join(taken))
        admitted, *counts = await self._ask(Question(keys, limits, windows))
        used = iter(counts)
        uses = [
            Use(plan, next(used), next(used), next(used) if of == "mdy" else 0, cost)
            for (_, plan), of, cost in zip(claims, letters, costs, strict=True)
        ]
        return judge_all(uses, now_ms, admitted=bool(admitted))

    async def used(self, caller: Caller, now_ms: int) -> tuple[int, int]:
        counts = await self._command("MGET", *self._keys(caller, now_ms))
        try:
            minute, day = counts
            return int(minute or 0), int(day or 0)
        except (TypeError, ValueError) as error:  # as for `take`
            raise Unavailable(REFUSES, why=FAILING) from error

    async def enter(self, guards: Guards, now_ms: int) -> GuardEntry:
        wait = await self._run(
            ENTER,
            [caller for caller, _ in guards],
            now_ms,
            *terms(backoff for _, backoff in guards),
        )
        return GuardEntry(admitted=wait < 0, wait=max(wait, 0))

    async def leave(
        self, guards: Guards, now_ms: int, *, entered_ms: int, has_failed: bool
    ) -> None:
        await self._run(
            LEAVE,
            [caller for caller, _ in guards],
            now_ms,
            int(has_failed),
            entered_ms,
            *terms(backoff for _, backoff in guards),
        )

    async def forget(self, callers: Sequence[Caller]) -> None:
        await self._run(FORGET, callers)

    async def probe(self) -> None:
        try:
            async with in_time(ANSWER_SECONDS):
                samples = await self._store.samples(map(self._probe, range(10_000)))
        except (ValkeyError, OSError) as error:
            raise _unavailable(error) from error
        for keys in samples:
            await self._ask(Question(keys, [UNLIMITED] * len(keys), "m" * len(keys)))

    async def about(self) -> About:
        """Facts about the server, for `portico doctor`. Raises `errors.Unavailable` if it does not
        answer."""
        text, (seconds, microseconds) = await self._command("EVAL", ABOUT, 1, self._probe(0))
        fields = dict(line.split(":", 1) for line in text.decode().split("\r\n") if ":" in line)
        valkey = fields.get("valkey_version")
        return About(
            name="Valkey" if valkey or not fields else "Redis",
            version=valkey or fields.get("redis_version", ""),
            now=int(seconds) * 1000 + int(microseconds) // 1000,
        )

    async def close(self) -> None:
        for queue in self._queues.values():
            if queue.sender is not None:
                await queue.sender
        await self._store.close()

    async def _run(self, script: str, callers: Sequence[Caller], *arguments: int | str) -> int:
        """Runs a script of `valkey_guard`. All its keys are in one slot, as a script requires. Its
        text is sent each time, since there are few attempts."""
        slot = f"{self._prefix}:{{{self._environment}:guard}}"
        keys = [f"{slot}:{spelled(caller)}" for caller in callers]
        answer = await self._command("EVAL", script, len(keys), *keys, *arguments)
        if not isinstance(answer, int):
            raise Unavailable(NO_ANSWER)
        return answer

    async def _command(self, *words: int | str) -> Any:
        """The server's answer to one command. Raises `Unavailable` if it does not come in time."""
        key = words[1] if words[0] == "MGET" else words[3]
        try:
            return await answer_of(self._store, str(key), words)
        except (ValkeyError, OSError) as error:
            raise _unavailable(error) from error

    def _probe(self, number: int) -> str:
        """A key for probing, in a slot that depends on the number."""
        return f"{self._prefix}:{{{self._environment}:probe:{number}}}"

    def _keys(self, caller: Caller, now_ms: int) -> tuple[str, str]:
        """The keys of the counts of the minute and the day."""
        owner = self._owner(caller)
        return f"{owner}:minute:{now_ms // MINUTE}", f"{owner}:day:{now_ms // DAY}"

    def _owner(self, caller: Caller) -> str:
        """The beginning of a caller's keys. Those that are counted together are in one slot."""
        kind, name = caller
        own = spelled(caller)
        shared = None
        if kind.by_strangers:
            shared = network_of(str(name))
        elif kind is LIMITED:
            shared = spelled((ACCOUNT, str(name).partition(":")[0]))
        slot = f"{self._prefix}:{{{self._environment}:{shared or own}}}"
        return f"{slot}:{own}" if shared else slot

    async def _ask(self, question: Question) -> Sequence[int]:
        """The answer of `TAKE` to one question: 1 if admitted, else 0, then the count of each key.
        Questions that arrive during an exchange are sent together in the next one, which halves a
        request's time under load. Raises `Unavailable`."""
        name = self._store.queue(question.keys[0])
        queue = self._queues.get(name) or self._queues.setdefault(name, _Queue())
        future = asyncio.get_running_loop().create_future()
        queue.asked.append((future, question))
        if queue.sender is None or queue.sender.done():
            queue.sender = asyncio.create_task(self._send(queue))
        answer: Sequence[int] | Exception = await future
        if isinstance(answer, Exception):
            unavailable = _unavailable(answer)
            queue.log_reason(_reason(unavailable, answer))
            raise unavailable from answer
        queue.log_reason("")
        return answer

    async def _send(self, queue: _Queue) -> None:
        """Sends questions until none are left, and gives each its answer or the error."""
        while queue.asked:
            asked, queue.asked = queue.asked[:SENT_AT_ONCE], queue.asked[SENT_AT_ONCE:]
            answers: list[Sequence[int] | Exception]
            try:
                async with in_time(ANSWER_SECONDS):
                    answers = await self._exchange([question for _, question in asked])
            except Exception as error:  # noqa: BLE001 — whatever it is, all waiting callers get it
                # Questions that arrived meanwhile would fail too, and have already waited.
                asked, queue.asked = asked + queue.asked, []
                answers = [error] * len(asked)
            for (future, _), answer in zip(asked, answers, strict=True):
                if not future.done():  # otherwise its request was cancelled
                    future.set_result(answer)
            await recover(self._store, answers)

    async def _exchange(self, asked: Sequence[Question]) -> list[Sequence[int] | Exception]:
        """The answer to each question, or an error."""
        calls = [asked] if self._store.takes_any_keys else [[question] for question in asked]
        answers: list[Sequence[int] | Exception] = []
        for call, answer in zip(calls, await self._calls(calls), strict=True):
            if isinstance(answer, Exception):
                answers.extend([answer] * len(call))
            else:
                with readable():
                    numbers = [*map(int, answer.split())]
                    lengths = [1 + len(one.keys) for one in call]
                    if len(numbers) != sum(lengths):
                        raise ValueError(numbers)
                left = iter(numbers)
                answers.extend([*islice(left, length)] for length in lengths)
        return answers

    async def _calls(
        self, calls: Sequence[Sequence[Question]], how: tuple[str, str] = ("EVALSHA", TAKE_SHA)
    ) -> list[bytes | Exception]:
        """The server's raw answers to calls of `TAKE`, each for several questions."""
        key = calls[0][0].keys[0]
        answers = await self._store.send(key, [(*how, *_arguments(call)) for call in calls])
        unknown = [i for i, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:  # the server has just started, or just become the primary: send the text
            again = await self._calls([calls[i] for i in unknown], ("EVAL", TAKE))
            for i, answer in zip(unknown, again, strict=True):
                answers[i] = answer
        return answers


def _arguments(call: Sequence[Question]) -> Iterator[int | str]:
    """The arguments of `TAKE`, after the number of keys."""
    yield sum(len(one.keys) for one in call)
    for one in call:
        yield from one.keys
    yield " ".join(one.windows for one in call)
    for one in call:
        yield from one.limits


def _unavailable(error: Exception) -> Unavailable:
    """The error to raise for an error of the server or the connection."""
    said = str(error)
    # From a replica, or from a primary whose replicas are away (`min-replicas-to-write`).
    if isinstance(error, ReadOnlyError) or said.startswith("NOREPLICAS"):
        return Unavailable(NO_WRITES, why="read_only")
    if said.startswith(("MOVED", "CROSSSLOT")):
        return Unavailable(IS_CLUSTER, why="cluster")
    if isinstance(error, OutOfMemoryError):
        return Unavailable(IS_FULL, why="full")
    refusals = (ResponseError, AuthenticationError, AuthorizationError)
    if isinstance(error, refusals) and not said.startswith(PASSING):
        return Unavailable(REFUSES, why=FAILING)
    return Unavailable(NO_ANSWER)


def _reason(unavailable: Unavailable, error: Exception) -> str:
    """The reason for the log, without the arguments of the command, which some servers repeat: in a
    login they contain the password."""
    if unavailable.message != REFUSES:
        return unavailable.message
    return f"{REFUSES} {str(error).partition(', with args')[0]}"


NO_POSITIONS = "The store of positions does not answer."
_NOTE = """
local before = tonumber(redis.call('GET', KEYS[1]) or 0)
local position = math.max(before, tonumber(ARGV[1]))
redis.call('SET', KEYS[1], string.format('%.0f', position), 'PX', ARGV[2])
return 1
"""


class ValkeyPositions:
    """One environment's `data.postgres.replicas.Positions` in a Valkey or Redis server, or a
    cluster. A server that was restarted, or has become the primary, may have lost the last ones: so
    for a while after connecting to it, a missing position proves nothing."""

    def __init__(self, url: str, environment: str, prefix: str, life: float, lag: float) -> None:
        """The first three are as for `ValkeyLimiter`. `life` is how long a position is kept, `lag`
        how far a replica may be behind, both in seconds."""
        self._store = store(url)
        self._life = int(life * 1000)
        self._lag = lag
        self._slot = f"{prefix}:{{{environment}:written"

    async def note(self, caller: int, position: int) -> None:
        key = self._key(caller)
        await self._ask(key, ("EVAL", _NOTE, 1, key, position, self._life))

    async def of(self, caller: int) -> int:
        key = self._key(caller)
        kept = await self._ask(key, ("GET", key))
        try:
            position = int(kept or 0)
        except (TypeError, ValueError) as error:  # another kind of server, or another program's key
            raise Unavailable(NO_POSITIONS) from error
        if time.monotonic() - self._store.connected < self._lag:
            raise Unavailable("The store of positions may have lost the latest ones.")
        return position

    async def close(self) -> None:
        await self._store.close()

    def _key(self, caller: int) -> str:
        return f"{self._slot}:{caller}}}"

    async def _ask(self, key: str, command: Command) -> Any:
        try:
            return await answer_of(self._store, key, command)
        except (ValkeyError, OSError) as error:
            raise Unavailable(NO_POSITIONS) from error
