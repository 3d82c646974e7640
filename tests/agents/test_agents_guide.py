"""The steps of docs/agents.md, and a client that finds its way by OAuth from the address alone."""

import json
import re
import ssl
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp.types import TextContent

import documents
from oauth.authority import Authority

GUIDE = documents.document("docs/agents.md")
CALLBACK = "http://127.0.0.1/callback"


def of_here(text: str, authority: Authority, key: str) -> str:
    """A text of the guide with this server's port and a key."""
    port = authority.installation.port
    return text.replace("localhost:8443", f"localhost:{port}").replace("sk_live_…", key)


async def tools_of(url: str, http: httpx2.AsyncClient) -> tuple[int, str]:
    """How many tools there are, and what one of them tells."""
    async with http, Client(streamable_http_client(url, http_client=http)) as client:
        tools = (await client.list_tools()).tools
        [content] = (await client.call_tool("list_kinds", {})).content
        assert isinstance(content, TextContent)
        return len(tools), content.text


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.certificate)


async def test_the_guides_key_connects_as_the_guide_configures_it(authority: Authority) -> None:
    shell = [block.text for block in GUIDE.blocks if block.language == "sh"]
    shown = [block.text for block in GUIDE.blocks if block.language == "json"]
    made = authority.installation.shell(shell[0])
    [key] = re.findall(r"sk_live_\w{20,}", made)
    cursor, local, answered = (json.loads(of_here(text, authority, key)) for text in shown)
    server = cursor["mcpServers"]["portico"]
    http = httpx2.AsyncClient(verify=trusting(authority), headers=server["headers"])
    count, kinds = await tools_of(server["url"], http)
    assert count == GUIDE.text.count("\n| `")
    assert "create_record" in {one["kind"]: one["tools"] for one in json.loads(kinds)}["products"]
    assert local["mcpServers"]["portico"]["args"][1:] == [
        server["url"],
        "--header",
        f"Authorization: {server['headers']['Authorization']}",
    ]
    link = authority.installation.directory / "portico-data"
    if not link.exists():
        link.symlink_to(authority.installation.data)
    assert json.loads(authority.installation.shell(of_here(shell[2], authority, key))) == answered


class Memory:
    """What the client keeps: who it is, and its tokens."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def registered(authority: Authority) -> OAuthClientInformationFull:
    """The client that the guide registers."""
    shell = [block.text for block in GUIDE.blocks if block.language == "sh"]
    [client_id] = re.findall(r"client_(?!id)\w{10,}", authority.installation.shell(shell[1]))
    facts = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    return OAuthClientInformationFull.model_validate({"client_id": client_id, **facts})


@pytest.mark.parametrize("known_by", ["registration", "document", "itself"])
async def test_a_client_gets_from_the_address_to_a_tool_by_one_consent(
    known_by: str, request: pytest.FixtureRequest, document: str
) -> None:
    where = "registering" if known_by == "itself" else "authority"
    authority: Authority = request.getfixturevalue(where)
    url = f"{authority.api}/mcp"
    visited: list[str] = []
    with authority.browser("editor") as browser:

        async def visit(address: str) -> None:
            visited.append(browser.decide(address))

        async def came_back() -> AuthorizationCodeResult:
            return AuthorizationCodeResult(**dict(parse_qsl(urlsplit(visited[0]).query)))

        metadata = OAuthClientMetadata.model_validate({"redirect_uris": [CALLBACK]})
        memory = Memory(registered(authority) if known_by == "registration" else None)
        own = document if known_by == "document" else None
        provider = OAuthClientProvider(url, metadata, memory, visit, came_back, own)
        http = httpx2.AsyncClient(verify=trusting(authority), auth=provider)
        _, kinds = await tools_of(url, http)
    assert len(visited) == 1
    tools = {kind["kind"]: kind["tools"] for kind in json.loads(kinds)}
    assert "create_record" in tools["products"]
    assert memory.tokens is not None
    with authority.client(memory.tokens.access_token) as elsewhere:
        assert elsewhere.get(f"{authority.api}/products").status_code == 401
