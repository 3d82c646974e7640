-- Asks Portico about a request, for apache.conf beside it.

local http = require "socket.http"
local ltn12 = require "ltn12"

local CHECK = "http://127.0.0.1:8080/auth/check/invoices"
local UNAVAILABLE = '{"error":{"code":"SERVICE_UNAVAILABLE","message":"The request could not be checked.","details":[]}}'
local KEPT = {
    "cache-control", "www-authenticate", "retry-after", "x-request-id",
    "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
}
local LIMITS = { "limit", "remaining", "reset" }

http.TIMEOUT = 10

local function answer(r, status, headers, body)
    for _, name in ipairs(KEPT) do
        if headers[name] then r.err_headers_out[name] = headers[name] end
    end
    r.status = status
    r.content_type = headers["content-type"]
    r:puts(body)
    return apache2.DONE  -- with a status instead, Apache would write a page of its own
end

function check(r)
    local asked = {
        ["x-forwarded-method"] = r.method,
        ["x-forwarded-uri"] = r.unparsed_uri,
        ["x-forwarded-for"] = r.useragent_ip,
        ["x-forwarded-proto"] = "https",
    }
    for _, name in ipairs({ "authorization", "cookie", "origin", "sec-fetch-site" }) do
        asked[name] = r.headers_in[name]
    end
    for name in pairs(r:headers_in_table()) do  -- what a client says in our name, in any spelling
        local spelled = name:lower():gsub("_", "-")
        if spelled:find("^x%-portico%-") or spelled:find("^x%-forwarded%-") or spelled:find("^x%-original%-") then
            r.headers_in[name] = nil
        end
    end
    local body = {}
    local done, status, headers = http.request({ url = CHECK, headers = asked, sink = ltn12.sink.table(body), redirect = false })
    if not done or status >= 500 then
        return answer(r, 503, { ["content-type"] = "application/json", ["cache-control"] = "no-store" }, UNAVAILABLE)
    end
    if status ~= 200 then
        return answer(r, status, headers, table.concat(body))
    end
    for _, name in ipairs(LIMITS) do
        r.subprocess_env["portico_" .. name] = headers["x-ratelimit-" .. name]
    end
    for _, name in ipairs({ "user", "role", "scopes", "plan", "credential", "environment", "identity" }) do
        r.headers_in["x-portico-" .. name] = headers["x-portico-" .. name]
    end
    return apache2.OK
end
