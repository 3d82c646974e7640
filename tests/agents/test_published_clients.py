"""Published MCP clients and the conformance suite, as they are, against the server. They come with
a key, with the address of a document of their own, or with nothing; nobody has registered them."""

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from agents.programs import TOOLS, allow, ended, started
from oauth.authority import Authority
from operating import TIMEOUT_SECONDS, free_port
from tool_calls import CURRENT, EARLIER

INSPECTOR = "node_modules/.bin/mcp-inspector"
CONFORMANCE = "node_modules/.bin/conformance"


class Arrival(NamedTuple):
    """A server, and what a client comes to it with: a key, the address of its document, or
    nothing, where it may register itself."""

    authority: Authority
    key: str = ""
    document: str = ""


@pytest.fixture(params=["key", "document", "nothing"])
def arrival(request: pytest.FixtureRequest, authority: Authority, document: str) -> Arrival:
    if request.param == "nothing":
        return Arrival(request.getfixturevalue("registering"))
    if request.param == "key":
        return Arrival(authority, key=authority.installation.key)
    return Arrival(authority, document=document)


@pytest.mark.parametrize(("program", "revision"), [("client.js", CURRENT), ("sdk.js", EARLIER[0])])
def test_official_clients_for_node_call_tools(
    arrival: Arrival, program: str, revision: str
) -> None:
    authority = arrival.authority
    known = ["key", arrival.key] if arrival.key else ["document", arrival.document]
    with started(authority, program, f"{authority.api}/mcp", *known) as process:
        if not arrival.key:
            allow(authority, process.stderr)
        found = json.loads(ended(process)[0])
    assert found["revision"] == revision
    assert found["tools"] == TOOLS
    assert found["products"]["isError"] is False
    assert json.loads(found["products"]["text"])["data"][0]["name"] == "Lamp"
    assert found["missing"]["isError"] is True
    assert "RESOURCE_NOT_FOUND" in found["missing"]["text"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_official_client_for_python_calls_tools(authority: Authority, mode: str) -> None:
    trusting = ssl.create_default_context(cafile=authority.certificate)
    headers = {"authorization": f"Bearer {authority.installation.key}"}
    async with httpx2.AsyncClient(verify=trusting, headers=headers) as http:
        transport = streamable_http_client(f"{authority.api}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            assert client.protocol_version == (CURRENT if mode == "auto" else EARLIER[0])
            assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
            result = await client.call_tool("list_records", {"kind": "products"})
    [content] = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text)["data"][0]["name"] == "Lamp"


def test_inspector_calls_a_tool(arrival: Arrival) -> None:
    authority = arrival.authority
    known = {"--header": f"Authorization: Bearer {arrival.key}"}
    if not arrival.key:
        known = {"--callback-url": f"http://127.0.0.1:{free_port()}/oauth/callback"}
    if arrival.document:
        known["--client-metadata-url"] = arrival.document
    with started(
        authority,
        INSPECTOR,
        *("--cli", f"{authority.api}/mcp", "--transport", "http"),
        *(word for pair in known.items() for word in pair),
        *("--method", "tools/call", "--tool-name", "list_records", "--tool-arg", "kind=products"),
    ) as process:
        if not arrival.key:
            allow(authority, process.stderr)
        assert "Lamp" in ended(process)[0]


def test_inspector_finds_no_fault_in_the_tools(authority: Authority) -> None:
    with started(
        authority,
        INSPECTOR,
        *("--cli", f"{authority.api}/mcp", "--transport", "http", "--strict"),
        *("--header", f"Authorization: Bearer {authority.installation.key}"),
        *("--method", "tools/list"),
    ) as process:
        assert "Warning: tool" not in ended(process)[1]


def test_mcp_remote_bridges_to_a_local_program(arrival: Arrival) -> None:
    authority = arrival.authority
    about = {
        "protocolVersion": EARLIER[0],
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    }
    calling = {"name": "list_records", "arguments": {"kind": "products"}}
    asked: list[dict[str, Any]] = [
        {"method": "initialize", "id": 1, "params": about},
        {"method": "notifications/initialized"},
        {"method": "tools/list", "id": 2},
        {"method": "tools/call", "id": 3, "params": calling},
    ]
    known = [str(free_port())]
    if arrival.key:
        known += ["--header", f"Authorization: Bearer {arrival.key}"]
    if arrival.document:
        known += ["--client-metadata-url", arrival.document]
    with started(
        authority, "node_modules/.bin/mcp-remote", f"{authority.api}/mcp", *known
    ) as bridge:
        if not arrival.key:
            allow(authority, bridge.stderr)
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        answers = {}
        for message in asked:
            bridge.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            bridge.stdin.flush()
            if "id" in message:
                answers[message["id"]] = json.loads(bridge.stdout.readline())
    assert [tool["name"] for tool in answers[2]["result"]["tools"]] == TOOLS
    assert "Lamp" in answers[3]["result"]["content"][0]["text"]


@contextmanager
def proxy(authority: Authority) -> Iterator[str]:
    """An address without a credential, as the suite wants it: a proxy in front of the server adds
    a key, and takes its own origin for the server's."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            port = server.server_port
            headers = {
                name: value.strip().replace(f"http://localhost:{port}", authority.origin)
                for name, value in self.headers.items()
                if name.lower() not in ("host", "connection", "accept-encoding")
            }
            headers["authorization"] = f"Bearer {authority.installation.key}"
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            answer = client.request(
                self.command, f"{authority.api}/mcp", content=body, headers=headers
            )
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with authority.client() as client, ThreadingHTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


EVERY = [CURRENT, *EARLIER]
SCENARIOS = {
    "server-initialize": EARLIER,
    "server-stateless": [CURRENT],
    "ping": EARLIER,
    "tools-list": EVERY,
    "dns-rebinding-protection": [CURRENT, EARLIER[0]],
    "caching": [CURRENT],
    "http-header-validation": [CURRENT],
    "input-required-result-unsupported-methods": [CURRENT],
}
"""Those of the suite's scenarios that need nothing of its own, each with its revisions."""

LEFT_OUT = {
    "need tools of the suite's own": [
        *("tools-call-*", "json-schema-2020-12", "elicitation-*", "input-required-result-*"),
        *("http-custom-header-server-validation",),
    ],
    "need its resources or prompts": [
        *("resources-*", "sep-2164-resource-not-found", "prompts-*", "completion-complete"),
    ],
    "are of extensions": ["tasks-*", "sep-2640-skills-*"],
    "need sessions or streams, which a server need not have": [
        *("server-session-lifecycle", "server-sse-*", "logging-set-level"),
    ],
}

NOT_OURS = {
    "server-stateless": {  # needs the suite's tools
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    },
    "caching": {  # needs resources and prompts
        "sep-2549-prompts-list-caching-hints",
        "sep-2549-resources-list-caching-hints",
        "sep-2549-resources-templates-list-caching-hints",
    },
}
"""The checks of a scenario that fail without what only the suite's own server has."""


def listed(authority: Authority) -> dict[str, list[str]]:
    """The scenarios that the suite has for servers, with their revisions."""
    with started(authority, CONFORMANCE, "list", "--server") as process:
        printed, _ = ended(process)
    found = re.findall(r"^  - (\S+) \[(.+)\]$", printed, re.MULTILINE)
    return {name: revisions.split(",") for name, revisions in found}


def test_conformance_scenarios_are_run_or_left_out_by_name(authority: Authority) -> None:
    out = [name for names in LEFT_OUT.values() for name in names]
    known = {
        name: [revision for revision in EVERY if revision in revisions]
        for name, revisions in listed(authority).items()
        if name in SCENARIOS or not any(fnmatch(name, one) for one in out)
    }
    assert known == {name: list(revisions) for name, revisions in SCENARIOS.items()}


def checked(directory: Path) -> list[dict[str, str]]:
    """The checks that a run of the suite has written down."""
    return [one for file in directory.rglob("checks.json") for one in json.loads(file.read_text())]


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [(revision, name) for name, revisions in SCENARIOS.items() for revision in revisions],
)
def test_conformance_suite_passes(
    authority: Authority, tmp_path: Path, revision: str, scenario: str
) -> None:
    """All its scenarios that need no tools, resources or prompts of its own."""
    arguments = ["--scenario", scenario, "--spec-version", revision, "--output-dir", str(tmp_path)]
    with (
        proxy(authority) as url,
        started(authority, CONFORMANCE, "server", "--url", url, *arguments) as process,
    ):
        printed, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    checks = checked(tmp_path)
    assert any(one["status"] == "SUCCESS" for one in checks), printed
    failed = {one["id"] for one in checks if one["status"] in ("FAILURE", "WARNING")}
    assert failed == NOT_OURS.get(scenario, set()), printed


@pytest.mark.parametrize("revision", EVERY)
def test_conformance_suite_passes_for_the_authorization_server(
    authority: Authority, document: str, tmp_path: Path, revision: str
) -> None:
    """All its scenarios, with a client that nobody has registered."""
    with started(
        authority,
        CONFORMANCE,
        *("authorization", "--url", authority.issuer, "--resource", f"{authority.api}/mcp"),
        *("--client-id", document, "--port", str(free_port())),
        *("--spec-version", revision, "--output-dir", str(tmp_path)),
    ) as process:
        allow(authority, process.stdout)
        printed, _ = ended(process)
    found = {one["id"]: one["status"] for one in checked(tmp_path)}
    assert found.keys() >= {"authorization-server-metadata", "authorization-code-grant"}
    assert set(found.values()) == {"SUCCESS"}, printed
