"""Agents may do with records what their credential may do by the API, and nothing else."""

import json
from typing import Any

import httpx
import pytest

from driving import BASE, Api, challenge, refused
from portico.core.audit import Actor, Author
from portico.features.access.authorization import exchange_code
from signing_in import CALLBACK, client_of, code_of, login_of, session_of
from tool_calls import call, post, result

NOBODY_HAS = 999_999
KINDS = ["products", "users", "orders"]
AT = {"id": NOBODY_HAS}
TOOLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "list_records": ("GET", "", {}),
    "read_record": ("GET", f"/{NOBODY_HAS}", AT),
    "create_record": ("POST", "", {"values": {"nonsense": 1}}),
    "change_record": ("PATCH", f"/{NOBODY_HAS}", {**AT, "values": {"name": "Ada"}}),
    "delete_record": ("DELETE", f"/{NOBODY_HAS}", AT),
}
"""Each tool with the API's request that it stands for, none of which changes anything."""

MCP = f"{BASE['live']}/mcp"


async def token_for(api: Api, role: str, scopes: str, resource: str | None) -> httpx.AsyncClient:
    """A client with an OAuth token of a new user, for the tools or the API (None)."""
    application = await client_of(api.live, scopes="admin")
    user = await api.account(role)
    code = await code_of(api.live, application.client, user, scopes, resource=resource)
    by = Author(Actor())
    issued = await exchange_code(api.live, application.client, by, code=code, redirect_uri=CALLBACK)
    pair = issued.pair
    return api.stranger(authorization=f"Bearer {pair.access_token}")


CREDENTIALS = {
    "a viewer's key": ("viewer", "live"),
    "an editor's key": ("editor", "live"),
    "an editor's reading key": ("editor", "read"),
    "an admin's key": ("admin", "live"),
    "an editor's token to read": ("editor", "read:products read:orders"),
    "an editor's token to write": ("editor", "write:products write:orders"),
    "an admin's token": ("admin", "admin"),
    "a viewer's token to write": ("viewer", "read:users write:products"),
}


@pytest.mark.parametrize("credential", CREDENTIALS)
async def test_tools_refuse_what_the_api_refuses(api: Api, credential: str) -> None:
    """One table: credential, kind and tool, with the API's own answer as what is expected."""
    role, given = CREDENTIALS[credential]
    agent: httpx.AsyncClient
    program: httpx.AsyncClient
    if given in ("live", "read"):
        agent = program = await api.caller(role, given)  # type: ignore[arg-type]
    else:
        agent = await token_for(api, role, given, MCP)
        program = await token_for(api, role, given, None)
    found: dict[tuple[str, str], Any] = {}
    expected: dict[tuple[str, str], Any] = {}
    async with api.unchanged():
        for kind in KINDS:
            for tool, (method, path, arguments) in TOOLS.items():
                values = arguments.get("values")
                answer = await program.request(method, f"/{kind}{path}", json=values)
                params = {"name": tool, "arguments": {"kind": kind, **arguments}}
                told = await result(agent, "tools/call", params=params)
                expected[kind, tool] = answer.json() if answer.status_code >= 400 else None
                text = told["content"][0]["text"]
                found[kind, tool] = json.loads(text) if "isError" in told else None
    assert found == expected
    listed = {kind["kind"]: kind["tools"] for kind in await call(agent, "list_kinds")}
    for (kind, tool), error in expected.items():
        if tool in listed[kind]:  # others may also change themselves
            assert error is None or error["error"]["code"] != "PERMISSION_DENIED" or kind == "users"
        else:
            assert error["error"]["code"] == "PERMISSION_DENIED"


async def test_a_token_is_good_at_its_resource_alone(api: Api) -> None:
    agent = await token_for(api, "editor", "read:products", MCP)
    program = await token_for(api, "editor", "read:products", None)
    assert (await post(agent, "tools/list")).status_code == 200
    assert (await program.get("/products")).status_code == 200
    for answer in (await agent.get("/products"), await post(program, "tools/list")):
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        assert challenge(answer) == 'Bearer error="invalid_token"'


async def test_logins_sessions_and_credentials_of_the_other_environment_are_refused(
    api: Api,
) -> None:
    user = await api.account("admin")
    login = await login_of(api.live, user)
    cookie = f"__Host-session={await session_of(api.live, user)}"
    test_key = (await api.caller("admin", "test")).key
    for headers in (
        {"authorization": f"Bearer {login.access_token}"},
        {"authorization": f"Bearer {test_key}"},
        {"cookie": cookie},
        {},
    ):
        refused(await post(api.stranger(**headers), "tools/list"), 401)


async def test_a_sandbox_key_reaches_the_records_of_the_sandbox(api: Api) -> None:
    agent = await api.caller("admin", "test")
    product = await api.product(api.sandbox, name="Sample")
    await api.product(name="Lamp")
    page = await call(agent, "list_records", kind="products")
    assert [one["name"] for one in page["data"]] == [product.name]
