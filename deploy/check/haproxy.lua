-- Asks Portico about a request, for haproxy.cfg beside it.

local CHECK = "http://127.0.0.1:8080/auth/check/invoices"
local UNAVAILABLE = '{"error":{"code":"SERVICE_UNAVAILABLE","message":"The request could not be checked.","details":[]}}'
local LIMITS = { ["x-ratelimit-limit"] = "limit", ["x-ratelimit-remaining"] = "remaining", ["x-ratelimit-reset"] = "reset" }

local function answer(txn, status, headers, body)
    local reply = txn:reply({ status = status, body = body })
    for name, values in pairs(headers) do
        for _, value in pairs(values) do
            if name ~= "content-length" and name ~= "connection" and name ~= "transfer-encoding" then
                reply:add_header(name, value)
            end
        end
    end
    txn:done(reply)
end

core.register_action("portico-check", { "http-req" }, function(txn)
    local sent = txn.http:req_get_headers()
    local asked = {
        ["x-forwarded-method"] = { txn.sf:method() },
        ["x-forwarded-uri"] = { txn.sf:pathq() },
        ["x-forwarded-for"] = { txn.sf:src() },
        ["x-forwarded-proto"] = { "https" },
    }
    for _, name in ipairs({ "authorization", "cookie", "origin", "sec-fetch-site" }) do
        for _, value in pairs(sent[name] or {}) do
            asked[name] = asked[name] or {}
            table.insert(asked[name], value)
        end
    end
    for name in pairs(sent) do  -- what a client says in our name
        if name:gsub("_", "-"):find("^x%-portico%-") then
            txn.http:req_del_header(name)
        end
    end
    local told = core.httpclient():get({ url = CHECK, headers = asked, timeout = 10000 })
    if told.status == 0 or told.status >= 500 then
        return answer(txn, 503, { ["content-type"] = { "application/json" }, ["cache-control"] = { "no-store" } }, UNAVAILABLE)
    end
    if told.status ~= 200 then
        return answer(txn, told.status, told.headers, told.body)
    end
    for name, values in pairs(told.headers) do
        if name:find("^x%-portico%-") then
            txn.http:req_set_header(name, values[0])
        elseif LIMITS[name] then
            txn:set_var("txn." .. LIMITS[name], values[0])
        end
    end
end, 0)
