"""What is not a message of the protocol gets the error of its revision, and never a 500."""

import json
from typing import Any

import pytest

from driving import Api, Caller, refused
from tool_calls import CURRENT, EARLIER, META, post, refusal

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.fixture
async def agent(api: Api) -> Caller:
    """An editor's agent."""
    return await api.caller("editor")


def message(**changed: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", **changed}).encode()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (message(method="\0").replace(rb"\u0000", b"\xff"), -32700),
        (message(params={"x": "\0"}).replace(rb"\u0000", b"\xff"), -32700),
        (b"[" * 100_000, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 100_000, -32700),
        (b"null", -32600),
        (b"[]", -32600),
        (b"[" + message() + b"]", -32600),
        (message(jsonrpc="1.0"), -32600),
        (message(id=None), -32600),
        (message(id=1.5), -32600),
        (message(id={}), -32600),
        (message(method=None), -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
        (message(params=[]), -32602),
        (message(params=None), -32602),
        (message(params={"_meta": 1}), -32602),
        (message(params={"_meta": {f"{META}protocolVersion": 1}}), -32602),
    ],
)
async def test_what_is_no_message_is_refused(agent: Caller, body: bytes, code: int) -> None:
    answer = await agent.post("/mcp", content=body, headers=JSON)
    assert answer.json()["error"]["code"] == code
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("revision", "status"), [(CURRENT, 404), (EARLIER[0], 200), (EARLIER[1], 200)]
)
@pytest.mark.parametrize("method", ["prompts/list", "Tools/list", "subscriptions/listen"])
async def test_unknown_methods_have_the_status_of_the_revision(
    agent: Caller, revision: str, status: int, method: str
) -> None:
    headers = {**JSON, "mcp-protocol-version": revision, "mcp-method": method}
    meta = {f"{META}protocolVersion": revision, f"{META}clientCapabilities": {}}
    params = {"_meta": meta} if revision == CURRENT else {}
    body = message(method=method, params=params)
    answer = await agent.post("/mcp", content=body, headers=headers)
    assert answer.json()["error"]["code"] == -32601
    assert (answer.status_code, answer.json()["id"]) == (status, 1)


@pytest.mark.parametrize(
    ("headers", "meta", "code"),
    [
        ({"mcp-protocol-version": "2024-11-05"}, None, -32022),
        ({"mcp-protocol-version": "x"}, None, -32022),
        ({"mcp-protocol-version": "x", "mcp-method": "ping"}, "x", -32022),
        ({"mcp-protocol-version": CURRENT}, None, -32602),
        ({}, CURRENT, -32020),
        ({"mcp-protocol-version": EARLIER[0], "mcp-method": "ping"}, CURRENT, -32020),
        ({"mcp-protocol-version": CURRENT}, CURRENT, -32020),
        ({"mcp-protocol-version": CURRENT, "mcp-method": "tools/list"}, CURRENT, -32020),
    ],
)
async def test_headers_and_body_must_agree_on_a_known_revision(
    agent: Caller, headers: dict[str, str], meta: str | None, code: int
) -> None:
    said: dict[str, Any] = {f"{META}protocolVersion": meta, f"{META}clientCapabilities": {}}
    body = message(params={"_meta": said} if meta else {})
    answer = await agent.post("/mcp", content=body, headers={**JSON, **headers})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, code)
    if code == -32022:
        wanted = headers["mcp-protocol-version"]
        assert error["data"] == {"supported": [CURRENT, *EARLIER], "requested": wanted}


async def test_transport_refusals_are_those_of_the_api(api: Api, agent: Caller) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = await agent.request(method, "/mcp")
        refused(answer, 405, "METHOD_NOT_ALLOWED")
        assert answer.headers["allow"] == "POST"
    foreign = await agent.post("/mcp", json={}, headers={"origin": "https://evil.example"})
    refused(foreign, 403, "PERMISSION_DENIED")
    wrong = await agent.post("/mcp", content=b"x", headers={"content-type": "text/plain"})
    refused(wrong, 415, "UNSUPPORTED_MEDIA_TYPE")
    stream = await agent.post("/mcp", json={}, headers={"accept": "text/event-stream"})
    refused(stream, 406, "NOT_ACCEPTABLE")
    huge = b" " * (api.settings.body_limit + 1)
    refused(await agent.post("/mcp", content=huge, headers=JSON), 413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("list_records", {}, "VALIDATION_ERROR"),
        ("list_records", [], "VALIDATION_ERROR"),
        ("list_records", {"kind": "products", "nonsense": 1}, "VALIDATION_ERROR"),
        ("list_records", {"kind": "products", "filters": {"nonsense": 1}}, "VALIDATION_ERROR"),
        ("list_records", {"kind": "products", "filters": {"status": {}}}, "VALIDATION_ERROR"),
        ("list_records", {"kind": "products", "filters": {"search": "\0"}}, "VALIDATION_ERROR"),
        ("list_records", {"kind": "products", "cursor": "é"}, "VALIDATION_ERROR"),
        ("list_records", {"kind": "api-keys"}, "RESOURCE_NOT_FOUND"),
        ("list_records", {"kind": "../users"}, "RESOURCE_NOT_FOUND"),
        ("list_kinds", {"kind": "\0"}, "RESOURCE_NOT_FOUND"),
        ("read_record", {"kind": "products", "id": 10**30}, "VALIDATION_ERROR"),
        ("read_record", {"kind": "products", "id": "1"}, "VALIDATION_ERROR"),
        ("create_record", {"kind": "products", "values": [[]]}, "VALIDATION_ERROR"),
        ("create_record", {"kind": "products", "values": {"name": "\0"}}, "VALIDATION_ERROR"),
        (
            "create_record",
            {"kind": "products", "values": {}, "idempotency_key": "é\n"},
            "VALIDATION_ERROR",
        ),
    ],
)
async def test_bad_arguments_are_errors_that_the_agent_reads(
    api: Api, agent: Caller, tool: str, arguments: Any, code: str
) -> None:
    async with api.unchanged():
        assert (await refusal(agent, tool, arguments))["code"] == code


@pytest.mark.parametrize(("revision", "status"), [(CURRENT, 400), (EARLIER[0], 200)])
async def test_an_unknown_tool_is_an_error_of_the_protocol(
    agent: Caller, revision: str, status: int
) -> None:
    answer = await post(agent, "tools/call", revision, {"name": "drop_table", "arguments": {}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, -32602)
