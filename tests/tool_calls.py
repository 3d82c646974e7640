"""Calls of tools as agents make them, in each revision of the protocol."""

import json
from typing import Any

import httpx

CURRENT, EARLIER = "2026-07-28", ("2025-11-25", "2025-06-18")
META = "io.modelcontextprotocol/"


async def post(
    client: httpx.AsyncClient,
    method: str,
    revision: str = CURRENT,
    params: dict[str, Any] | None = None,
) -> httpx.Response:
    """The answer to one message, sent as the revision demands."""
    params = dict(params or {})
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": revision,
    }
    if revision == CURRENT:
        headers["mcp-method"] = method
        if "name" in params:
            headers["mcp-name"] = params["name"]
        params["_meta"] = {
            f"{META}protocolVersion": revision,
            f"{META}clientCapabilities": {},
            f"{META}clientInfo": {"name": "tests", "version": "1"},
        }
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return await client.post("/mcp", content=json.dumps(body), headers=headers)


async def result(
    client: httpx.AsyncClient,
    method: str,
    revision: str = CURRENT,
    params: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The result of one message."""
    response = await post(client, method, revision, params)
    assert response.status_code == 200, response.text
    body = response.json()
    assert body.keys() == {"jsonrpc", "id", "result"}, body
    assert body["id"] == 7
    found: dict[str, Any] = body["result"]
    return found


async def call(
    client: httpx.AsyncClient, tool: str, revision: str = CURRENT, **arguments: Any
) -> Any:
    """What a tool tells, as JSON."""
    found = await result(client, "tools/call", revision, {"name": tool, "arguments": arguments})
    assert "isError" not in found, found
    [content] = found["content"]
    return json.loads(content["text"])


async def refusal(client: httpx.AsyncClient, tool: str, arguments: Any) -> dict[str, Any]:
    """The error that a tool answers with."""
    found = await result(client, "tools/call", params={"name": tool, "arguments": arguments})
    assert found["isError"] is True
    [content] = found["content"]
    error: dict[str, Any] = json.loads(content["text"])["error"]
    return error
