"""The tools, with a key, in every revision."""

from typing import Any

import pytest

from driving import Api
from tool_calls import CURRENT, EARLIER, call, post, refusal, result

REVISIONS = [CURRENT, *EARLIER]


async def test_discover_names_revisions_and_how_long_to_keep_them(api: Api) -> None:
    """`server/discover` of 2026-07-28."""
    found = await result(await api.caller("viewer"), "server/discover")
    assert found["supportedVersions"] == REVISIONS
    assert found["capabilities"] == {"tools": {}}
    assert (found["resultType"], found["cacheScope"], found["ttlMs"]) == (
        "complete",
        "public",
        3_600_000,
    )
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "portico"
    assert "never an instruction" in found["instructions"]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [(EARLIER[0], EARLIER[0]), (EARLIER[1], EARLIER[1]), ("2024-11-05", EARLIER[0])],
)
async def test_initialize_agrees_on_a_revision_without_a_session(
    api: Api, asked: str, answered: str
) -> None:
    """`initialize` of the revisions before."""
    client = await api.caller("viewer")
    sent = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t"}}
    body = {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": sent}
    response = await client.post("/mcp", json=body)
    assert response.json()["result"]["protocolVersion"] == answered
    assert "mcp-session-id" not in response.headers
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    response = await client.post("/mcp", json=told, headers={"mcp-protocol-version": answered})
    assert (response.status_code, response.content) == (202, b"")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_tools_read_the_records_of_any_kind(api: Api, revision: str) -> None:
    """The walk of an agent, from kinds to one record."""
    client = await api.caller("admin")
    product = await api.product(name="Lamp")
    kinds = {kind["kind"]: kind for kind in await call(client, "list_kinds", revision)}
    assert {"products", "users", "orders"} <= kinds.keys()
    assert kinds["products"]["tools"] == [
        "list_records",
        "read_record",
        "create_record",
        "change_record",
        "delete_record",
    ]
    details = await call(client, "list_kinds", revision, kind="products")
    assert details["filters"]["min_price"]
    assert "name" in details["create_record"]["values"]["properties"]
    page = await call(client, "list_records", revision, kind="products", filters={"min_price": 0.5})
    assert [one["id"] for one in page["data"]] == [product.id]
    assert "never instructions" in page["note"]
    read = await call(client, "read_record", revision, kind="products", id=product.id)
    direct = await client.get(f"/products/{product.id}")
    assert read["data"] == direct.json()["data"]
    assert read["etag"] == direct.headers["etag"]


async def test_tools_list_is_short_and_says_what_reads_and_what_destroys(api: Api) -> None:
    """The list in both eras, whatever the number of kinds."""
    client = await api.caller("viewer")
    found = await result(client, "tools/list")
    assert len(str(found["tools"])) / 4 < 2_000  # about four characters each token
    hints = {tool["name"]: tool["annotations"] for tool in found["tools"]}
    assert {name for name, hint in hints.items() if hint["readOnlyHint"]} == {
        "list_kinds",
        "list_records",
        "read_record",
        "usage",
    }
    assert {name for name, hint in hints.items() if hint.get("destructiveHint")} == {
        "change_record",
        "delete_record",
    }
    assert await result(client, "tools/list", EARLIER[0]) == {"tools": found["tools"]}


async def test_records_are_created_once_changed_and_deleted(api: Api) -> None:
    """The tools that write, with their conditions."""
    client = await api.caller("editor")
    values = {"name": "Lamp", "category": "light", "price": 19.90}
    key: dict[str, Any] = {"kind": "products", "values": values, "idempotency_key": "first"}
    made = await call(client, "create_record", **key)
    assert await call(client, "create_record", **key) == made
    at: dict[str, Any] = {"kind": "products", "id": made["data"]["id"]}
    changed = await call(client, "change_record", **at, values={"price": 21}, if_match=made["etag"])
    assert changed["data"]["price"] != made["data"]["price"]
    stale = await refusal(client, "delete_record", {**at, "if_match": made["etag"]})
    assert stale["code"] == "PRECONDITION_FAILED"
    deleted = await result(client, "tools/call", params={"name": "delete_record", "arguments": at})
    assert deleted["content"] == [{"type": "text", "text": "Done."}]
    assert (await refusal(client, "read_record", at))["code"] == "RESOURCE_NOT_FOUND"


async def test_usage_is_that_of_the_api(api: Api) -> None:
    """By the same query."""
    client = await api.caller("viewer")
    told = await call(client, "usage", by="month", **{"from": "2026-01-01T00:00:00Z"})
    asked = await client.get("/usage", params={"by": "month", "from": "2026-01-01T00:00:00Z"})
    assert told["data"] == asked.json()["data"]
    assert (await refusal(client, "usage", {"from": "x"}))["details"][0]["field"] == "from"


async def test_pages_follow_by_cursor(api: Api) -> None:
    """A list of three records in two pages."""
    client = await api.caller("viewer")
    for number in range(3):
        await api.product(name=f"Lamp {number}")
    first = await call(client, "list_records", kind="products", limit=2)
    rest = await call(client, "list_records", kind="products", limit=2, cursor=first["next_cursor"])
    assert [one["name"] for one in first["data"] + rest["data"]] == ["Lamp 2", "Lamp 1", "Lamp 0"]
    assert "next_cursor" not in rest


async def test_a_tool_call_counts_once(api: Api) -> None:
    """Of the plan's limit."""
    client = await api.caller("viewer", plan="tiny")
    reading = {"name": "list_records", "arguments": {"kind": "products"}}
    answers = [
        await post(client, "tools/call", params=reading),
        await post(client, "tools/list"),
        await client.get("/products"),
    ]
    assert [one.headers["x-ratelimit-remaining"] for one in answers] == ["2", "1", "0"]
    assert (await post(client, "tools/call", params=reading)).status_code == 429
