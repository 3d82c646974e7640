"""What runs in the Valkey or Redis server for failed attempts: `domain.guard` once more, in Lua.

A key holds how many attempts failed, how many are under way, and when that is forgotten; then the
key vanishes. A place that a crash never gave back goes with it.
"""

from collections.abc import Iterable, Iterator

from portico.domain.guard import Patience

_READ = """
local now = tonumber(ARGV[1])
local function read(key, window, longest)
    local kept = redis.call('HMGET', key, 'failures', 'under_way', 'ends')
    local failures, under_way, ends = tonumber(kept[1]), tonumber(kept[2]), tonumber(kept[3])
    if not ends or ends <= now or ends - now > longest then
        return 0, 0, now + window
    end
    return failures, under_way, ends
end
local function write(key, failures, under_way, ends)
    redis.call('HSET', key, 'failures', failures, 'under_way', under_way, 'ends', ends)
    redis.call('PEXPIRE', key, ends - now + 60000)
end
"""

ENTER = (
    _READ
    + """
local wait, busy, kept = 0, false, {}
for i, key in ipairs(KEYS) do
    local free, window, longest = unpack(ARGV, i * 4 - 2, i * 4)
    local failures, under_way, ends = read(key, tonumber(window), tonumber(longest))
    local places = free - failures
    if places <= 0 then
        local left = ends - now
        if ARGV[i * 4 + 1] ~= '' then left = left - window end
        if wait == 0 then wait = math.max(0, left) end
        places = 1
    end
    busy = busy or under_way >= places
    kept[i] = {failures, under_way + 1, ends}
end
if wait > 0 or busy then return wait end
for i, key in ipairs(KEYS) do write(key, unpack(kept[i])) end
return -1
"""
)
"""Takes the time and the terms of every key. -1 is admission, else the milliseconds to wait."""

LEAVE = (
    _READ
    + """
local failed = ARGV[2] == '1'
for i, key in ipairs(KEYS) do
    local free, window, longest = unpack(ARGV, i * 4 - 1, i * 4 + 1)
    free, window = tonumber(free), tonumber(window)
    local failures, under_way, ends = read(key, window, tonumber(longest))
    under_way = math.max(0, under_way - 1)
    if failed then
        failures = failures + 1
        if failures == 1 then ends = now + window end
        local waits = {}
        for wait in string.gmatch(ARGV[i * 4 + 2], '%d+') do waits[#waits + 1] = tonumber(wait) end
        if #waits > 0 and failures >= free then
            ends = now + waits[math.min(failures - free + 1, #waits)] + window
        end
    end
    if failures == 0 and under_way == 0 then
        redis.call('DEL', key)
    else
        write(key, failures, under_way, ends)
    end
end
return 0
"""
)
"""Takes the time, 1 for a failure or 0, and the terms of every key."""

FORGET = """
for _, key in ipairs(KEYS) do
    if redis.call('EXISTS', key) == 1 then redis.call('HSET', key, 'failures', 0) end
end
return 0
"""


def terms(patiences: Iterable[Patience]) -> Iterator[int | str]:
    """What the scripts want to know of each: free failures, window, longest memory, waits."""
    for patience in patiences:
        yield patience.free
        yield patience.window
        yield patience.longest
        yield " ".join(map(str, patience.waits))
