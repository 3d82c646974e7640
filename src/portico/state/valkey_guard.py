"""The scripts for failed attempts that run in Valkey or Redis: the rules of `domain.guard`, in Lua.

A key holds how many attempts failed, when that is forgotten, and when the attempts under way began;
it expires once none of this matters. A place is identified by the time at which it was taken, so
that one that is never given back expires, however many attempts follow.
"""

from collections.abc import Iterable, Iterator

from portico.domain.guard import HELD, Patience

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
    redis.call('HSET', key, 'failures', failures, 'ends', ends, 'begun', table.concat(begun, ' '),
        'under_way', #begun)  -- the last is what an older release beside counts by
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


def terms(patiences: Iterable[Patience]) -> Iterator[int | str]:
    """The script arguments of each: free failures, window, waits."""
    for patience in patiences:
        yield patience.free
        yield patience.window
        yield " ".join(map(str, patience.waits))
