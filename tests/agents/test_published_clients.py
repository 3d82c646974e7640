"""Published MCP clients and the conformance suite, as they are, against the server."""

import json
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from node_packages import node_packages
from oauth.authority import Authority
from operating import TIMEOUT_SECONDS
from tool_calls import CURRENT, EARLIER

PROGRAMS = Path(__file__).parent / "node"

TOOLS = [
    *("list_kinds", "list_records", "read_record"),
    *("create_record", "change_record", "delete_record", "usage"),
]


def started_by(authority: Authority, program: str, *arguments: str) -> dict[str, Any]:
    """How to start a program, by the Node that comes with the packages."""
    [node] = node_packages(PROGRAMS).glob("node-linux-*/bin/node")
    trusting = {"NODE_EXTRA_CA_CERTS": str(authority.certificate)}
    environment = {**os.environ, **trusting, "HOME": str(authority.installation.data)}
    return {"args": [node, program, *arguments], "cwd": PROGRAMS, "env": environment}


def run(authority: Authority, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs a program to its end."""
    return subprocess.run(
        **started_by(authority, program, *arguments),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("program", ["client.js", "sdk.js"])
def test_official_clients_for_node_call_tools(authority: Authority, program: str) -> None:
    done = run(authority, program, f"{authority.api}/mcp", authority.installation.key)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
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


def test_inspector_calls_a_tool(authority: Authority) -> None:
    done = run(
        authority,
        "node_modules/.bin/mcp-inspector",
        *("--cli", f"{authority.api}/mcp", "--transport", "http"),
        *("--header", f"Authorization: Bearer {authority.installation.key}"),
        *("--method", "tools/call", "--tool-name", "list_records", "--tool-arg", "kind=products"),
    )
    assert done.returncode == 0, done.stderr
    assert "Lamp" in done.stdout


def test_mcp_remote_bridges_to_a_local_program(authority: Authority) -> None:
    asked: list[dict[str, Any]] = [
        {
            "method": "initialize",
            "id": 1,
            "params": {
                "protocolVersion": EARLIER[0],
                "capabilities": {},
                "clientInfo": {"name": "tests", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"method": "tools/list", "id": 2},
    ]
    bridge = subprocess.Popen(
        **started_by(
            authority,
            "node_modules/.bin/mcp-remote",
            f"{authority.api}/mcp",
            *("--header", f"Authorization: Bearer {authority.installation.key}"),
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        answers = {}
        for message in asked:
            bridge.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            bridge.stdin.flush()
            if "id" in message:
                answers[message["id"]] = json.loads(bridge.stdout.readline())
        bridge.terminate()
    assert [tool["name"] for tool in answers[2]["result"]["tools"]] == TOOLS


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


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        *((CURRENT, one) for one in ("server-stateless", "tools-list", "caching")),
        *((CURRENT, one) for one in ("dns-rebinding-protection", "http-header-validation")),
        *((EARLIER[0], one) for one in ("server-initialize", "ping", "tools-list")),
        (EARLIER[1], "server-initialize"),
    ],
)
def test_conformance_suite_passes(
    authority: Authority, tmp_path: Path, revision: str, scenario: str
) -> None:
    """All its scenarios that need no tools, resources or prompts of its own."""
    with proxy(authority) as url:
        done = run(
            authority,
            "node_modules/.bin/conformance",
            *("server", "--url", url, "--scenario", scenario),
            *("--spec-version", revision, "--output-dir", str(tmp_path)),
        )
    [file] = tmp_path.rglob("checks.json")
    checks = json.loads(file.read_text())
    assert any(one["status"] == "SUCCESS" for one in checks), done.stdout
    failed = {one["id"] for one in checks if one["status"] in ("FAILURE", "WARNING")}
    assert failed == NOT_OURS.get(scenario, set()), done.stdout
