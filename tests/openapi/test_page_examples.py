"""What the reference shows of the clients is what they do: each example is run, and makes the call
that it stands beside."""

import json
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from documents import ROOT
from openapi.conftest import ADDRESS, AUTH_ADDRESS
from portico.environment import Addresses
from portico.openapi.pages import shown as shown_to
from portico.web.reference.operations import Operation, operations
from portico_client import CallbackRejected, OAuthTokens

ADDRESSES = Addresses(ADDRESS, AUTH_ADDRESS, "https://localhost:8443/dashboard")


class Enough(Exception):
    """Ends an example that goes on for ever."""


SNIPPETS = ROOT / "src/portico/openapi/snippets"
LAST = {"total_pages": 1, "has_more": False}
"""What the only page of a list says."""
ENDING = {"stream_events": Enough, "token": CallbackRejected}
"""How examples end that do not by themselves: nobody stands by to sign in."""


@pytest.fixture(scope="module")
def shown(described: dict[str, Any]) -> dict[str, Operation]:
    return shown_at(described, ADDRESSES)


def shown_at(described: dict[str, Any], addresses: Addresses) -> dict[str, Operation]:
    """The operations as the reference shows them to those who read these addresses."""
    made = operations(shown_to(described, addresses), addresses.base, addresses.curl)
    return {one.id: one for one in made}


def text(operation: Operation, language: str) -> str:
    return next(one.text for one in operation.samples if one.language == language)


def answering(described: dict[str, Any], made: list[httpx.Request]) -> Callable[..., Any]:
    """Answers requests with the examples of the document; a second stream is enough."""

    def answer(_: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        if any(request.url == before.url and request.method == before.method for before in made):
            raise Enough
        made.append(request)
        path = re.sub(r"^/(v1|auth)(?=/)", "", request.url.path)
        templates = {re.sub(r"\{\w+\}", "17", name): item for name, item in
                     described["paths"].items()}  # fmt: skip
        responses = templates[path][request.method.lower()]["responses"]
        status = next(status for status in responses if status < "300")
        content = responses[status].get("content", {})
        headers = {"set-cookie": "__Host-session=s3cret; Path=/; Secure"}
        if "text/event-stream" in content:
            stream = content["text/event-stream"]["example"]
            headers["content-type"] = "text/event-stream"
            return httpx.Response(200, text=stream, headers=headers)
        media = content.get("application/json", {})
        body = media.get("example")
        if "pagination" in (body or {}):
            body = {**body, "pagination": {**body["pagination"], **LAST}}
        told = None if body is None else json.dumps(body).replace("\\u2026", "")
        return httpx.Response(int(status), text=told, headers=headers)

    return answer


def test_what_the_clients_have_a_call_for_is_shown_by_both(shown: dict[str, Operation]) -> None:
    by_both = {
        name
        for name, operation in shown.items()
        if [one.language for one in operation.samples] == ["curl", "python", "typescript"]
    }
    assert len(by_both) > 30
    by_curl_alone = set(shown) - by_both
    assert all([one.language for one in shown[name].samples] == ["curl"] for name in by_curl_alone)
    python, typescript = (
        set(re.findall(rf"^{start} (\w+)\(", (SNIPPETS / name).read_text("utf-8"), re.MULTILINE))
        for name, start in (("python.py", "def"), ("typescript.ts", "export async function"))
    )
    assert python == typescript == by_both


def test_the_python_examples_make_the_calls_that_they_stand_beside(
    described: dict[str, Any], shown: dict[str, Operation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTICO_API_KEY", "a-key")
    context = ssl.create_default_context()  # once, and not for each client: it takes a while
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: context)
    given = {
        "callback_url": "https://example.com/callback?code=c&state=other",
        "tokens": OAuthTokens("oat_…", "ort_…", "client_…", "ocs_…"),
        "print": lambda *_: None,
    }
    for name, operation in shown.items():
        if len(operation.samples) == 1:
            continue
        made: list[httpx.Request] = []
        answer = answering(described, made)
        monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
        program = compile(text(operation, "python"), name, "exec")
        ended: BaseException | None = None
        try:
            exec(program, dict(given))  # noqa: S102 - our own document
        except (Enough, CallbackRejected) as end:
            ended = end
        assert type(ended) is ENDING.get(name, type(None)), name
        if name == "token":
            continue
        curl = text(operation, "curl")
        address = urlsplit(curl.split()[-1])
        (sent,) = [
            one for one in made if one.method == operation.method and one.url.path == address.path
        ]
        if operation.body and name != "logout":
            body = re.search(r"-d '(\{.*\})'", curl, re.DOTALL)
            if body is not None:
                assert json.loads(sent.content) == json.loads(body[1]), name


def test_examples_know_where_they_are_and_whom_to_trust(described: dict[str, Any]) -> None:
    addresses = Addresses(
        "https://api.test/v1",
        "https://id.test",
        "https://home.test",
        authority=Path("/srv/our data/ca.pem"),
    )
    for is_here, path in ((True, "/srv/our data/ca.pem"), (False, "ca.pem")):
        shown = shown_at(described, addresses.read(here=is_here))
        samples = {name: text(shown["read_product"], name) for name in ("python", "typescript")}
        quoted = f"'{path}'" if is_here else path
        assert f"curl --cacert {quoted} " in text(shown["read_product"], "curl")
        assert f'ca="{path}"' in samples["python"]
        assert f"NODE_EXTRA_CA_CERTS={quoted}" in samples["typescript"]
        assert 'base_url="https://api.test/v1"' in samples["python"]
        assert 'auth_url="https://id.test"' in text(shown["token"], "python")
        assert 'authUrl: "https://id.test"' in text(shown["token"], "typescript")
        for sample in samples.values():
            assert is_here or "/srv" not in sample
