"""The gate of the Python client in front of FastAPI, served by uvicorn: with what Portico forwards,
and with requests that reach the service past Portico."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import pytest
import uvicorn
from fastapi import Depends, FastAPI, Request
from joserfc import jwt

from client.gates import PAST_PORTICO, assert_answered_alike, key_of, sent, verifying_key
from client.issuing import AUTH, BASE, GOOD, NOW, key, public
from oauth.authority import Authority
from operating import until
from portico_client import APIError, Caller, Gate


def service(gate: Gate) -> Any:
    """A service where the rules decide, and below /alone one scope."""
    app, alone = FastAPI(), FastAPI()
    reads = gate.require("read:invoices")

    @app.get("/status")
    async def status() -> dict[str, str]:
        return {"status": "fine"}

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def invoice(request: Request, caller: Annotated[Caller, Depends(reads)]) -> Any:
        assert request.scope["portico.caller"] == caller
        return {"user": caller.user_id, "plan": caller.plan, "credential": caller.credential}

    @alone.post("/{path:path}")
    async def written(caller: Annotated[Caller, Depends(gate.require("write:invoices"))]) -> Any:
        return {"user": caller.user_id, "scopes": sorted(caller.scopes)}

    guarded = gate.middleware(app)

    async def both(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        await (alone if path.startswith("/alone/") else guarded)(scope, receive, send)

    return both


@pytest.fixture(scope="module")
def place(served: Authority, service_port: int) -> Iterator[str]:
    """The address of the running service."""
    ca, key = str(served.certificate), verifying_key(served)
    running: list[uvicorn.Server] = []

    async def serve() -> None:
        async with Gate(served.api, key, "invoices", path="/invoices", ca=ca) as gate:
            config = uvicorn.Config(
                service(gate), port=service_port, log_level="error", lifespan="off", ws="none"
            )
            running.append(uvicorn.Server(config))
            await running[0].serve()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    until(lambda: running and running[0].started)
    yield f"http://127.0.0.1:{service_port}"
    running[0].should_exit = True
    thread.join()


@pytest.mark.parametrize(("sender", "method", "path", "status"), PAST_PORTICO)
def test_past_portico_the_gate_answers_as_portico_does(
    served: Authority, place: str, sender: str, method: str, path: str, status: int
) -> None:
    assert_answered_alike(served, place, sender, method, path, status)


def test_what_portico_forwards_is_trusted_and_counted_once(served: Authority, place: str) -> None:
    bearer = {"authorization": f"Bearer {key_of(served, 'viewer', 'tiny')}"}
    answers = [sent(served, f"{served.api}/invoices/7", headers=bearer) for _ in range(4)]
    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    assert [one.headers.get_list("x-ratelimit-remaining") for one in answers] == [
        ["2"], ["1"], ["0"], ["0"],
    ]  # fmt: skip
    assert answers[0].json()["plan"] == "tiny"
    refused = sent(served, f"{place}/7", headers=bearer)
    assert refused.status_code == 429
    assert refused.json() == answers[3].json()
    for name in ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"):
        assert refused.headers[name] == answers[3].headers[name]
    assert 0 < int(refused.headers["retry-after"]) <= int(answers[3].headers["retry-after"])


def test_a_rule_and_a_dependency_together_count_a_request_once(
    served: Authority, place: str
) -> None:
    bearer = {"authorization": f"Bearer {key_of(served, 'viewer', 'tiny')}"}
    answers = [sent(served, f"{place}/7", headers=bearer) for _ in range(3)]
    assert [one.headers["x-ratelimit-remaining"] for one in answers] == ["2", "1", "0"]


def test_a_dependency_alone_gives_porticos_error_body(served: Authority, place: str) -> None:
    address = f"{place}/alone/7"
    editor = {"authorization": f"Bearer {key_of(served, 'editor')}"}
    answer = sent(served, address, "POST", editor)
    assert answer.status_code == 200
    assert "write:invoices" in answer.json()["scopes"]
    viewer = {"authorization": f"Bearer {key_of(served, 'viewer')}"}
    ours, theirs = (
        sent(served, one, "POST", viewer) for one in (address, f"{served.api}/invoices/alone/7")
    )
    assert (ours.status_code, ours.json()) == (403, theirs.json())
    assert ours.headers["www-authenticate"] == theirs.headers["www-authenticate"]
    assert 'scope="write:invoices", resource_metadata=' in ours.headers["www-authenticate"]
    assert ours.headers["x-ratelimit-limit"] == "1000000"
    reader = {"authorization": f"Bearer {key_of(served, 'editor', type='read')}"}
    refused = sent(served, address, "POST", reader)
    assert (refused.status_code, "read-only" in refused.text) == (403, True)
    nobody = sent(served, address, "POST", {})
    assert (nobody.status_code, nobody.json()["error"]["code"]) == (401, "AUTHENTICATION_REQUIRED")
    assert nobody.headers["www-authenticate"].startswith('Bearer scope="write:invoices", resource')


def test_a_keys_networks_are_those_of_the_caller(served: Authority, place: str) -> None:
    for network, status in (("127.0.0.0/8", 200), ("192.0.2.0/24", 403)):
        bearer = {"authorization": f"Bearer {key_of(served, 'viewer', networks=[network])}"}
        assert sent(served, f"{place}/7", headers=bearer).status_code == status


IDENTITY = {
    **GOOD, "aud": f"{BASE}/invoices", "plan": "pro", "scope": "read:invoices read:users",
    "credential": "api_key:3",
}  # fmt: skip
TYPE = "portico-identity+jwt"


def identity(kind: str = TYPE, kid: str = "one", **changes: Any) -> str:
    header = {"alg": "RS256", "typ": kind, "kid": kid}
    return jwt.encode(header, {**IDENTITY, **changes}, key(kid), algorithms=["RS256"])


class Portico:
    """A stand-in that has one key, and refuses every credential."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[Any] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/auth/.well-known/jwks.json":
            return httpx.Response(200, json={"keys": [public("one")]})
        self.asked.append(json.loads(request.content))
        verdict = {"valid": False, "code": "AUTHENTICATION_REQUIRED", "message": "No."}
        data = {**verdict, "user": None, "credential": None, "limit": None}
        return httpx.Response(self.status, json={"data": data})


async def passed(portico: Portico, *headers: tuple[str, str], path: str = "/7") -> httpx.Response:
    """What the gate answers, or who it says the caller is."""

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        caller = scope["portico.caller"]
        content = json.dumps([caller.user_id, caller.role, caller.plan, caller.credential])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": content.encode()})

    asking: Any = {"clock": lambda: NOW, "transport": httpx.MockTransport(portico), "retries": 0}
    async with Gate(BASE, "a-key", "invoices", **asking) as gate:
        transport = httpx.ASGITransport(gate.middleware(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as anybody:
            return await anybody.get(path, headers=list(headers))


async def test_an_identity_is_trusted_without_a_question() -> None:
    portico = Portico()
    found = await passed(portico, ("x-portico-identity", identity()))
    assert (found.json(), portico.asked) == ([17, "editor", "pro", "api_key:3"], [])


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (identity("JWT"), "not of the type"),
        (identity("at+jwt"), "not of the type"),
        (identity(aud=BASE), "another audience"),
        (identity(aud=f"{BASE}/other"), "another audience"),
        (identity(aud=[f"{BASE}/invoices", BASE]), "another audience"),
        (identity(iss=f"{AUTH}/other"), "another issuer"),
        (identity(exp=NOW), "expired"),
        (identity(kid="two"), "does not have"),
        (identity(scope=None), "does not say"),
        (identity(sub="x"), "does not say"),
        (identity()[:-4] + "AAAA", "signature"),
        ("nonsense", "not a signed"),
    ],
    ids=range(12),
)
async def test_only_an_identity_for_this_service_alone_is_trusted(token: str, reason: str) -> None:
    portico = Portico()
    found = await passed(portico, ("x-portico-identity", token))
    assert (found.status_code, found.headers["www-authenticate"]) == (401, "Bearer")
    assert reason in found.json()["error"]["message"]
    assert [one["credential"] for one in portico.asked] == [""]


@pytest.mark.parametrize("name", ["x_portico_identity", "x-portico-user"])
async def test_other_spellings_and_plain_headers_say_nothing(name: str) -> None:
    found = await passed(Portico(), (name, identity()), ("x-portico-scopes", "admin"))
    assert found.status_code == 401


async def test_two_identities_are_none() -> None:
    pairs = [("x-portico-identity", identity())] * 2
    assert (await passed(Portico(), *pairs)).status_code == 401


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_without_a_verdict_nothing_passes(status: int) -> None:
    found = await passed(Portico(status), ("authorization", "Bearer x"))
    assert (found.status_code, found.headers["retry-after"]) == (503, "1")
    assert found.json()["error"]["code"] == "SERVICE_UNAVAILABLE"


async def test_a_key_that_may_not_verify_is_the_services_own_fault() -> None:
    with pytest.raises(APIError):
        await passed(Portico(403), ("authorization", "Bearer x"))


async def test_a_websocket_is_refused_before_it_is_open() -> None:
    said: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        said.append(message)

    async def app(*_: Any) -> None:
        raise AssertionError("it passed")

    asking: Any = {"transport": httpx.MockTransport(Portico())}
    scope = {"type": "websocket", "path": "/7", "headers": []}
    async with Gate(BASE, "a-key", "invoices", **asking) as gate:
        await gate.middleware(app)(scope, receive, send)
        extended = {**scope, "extensions": {"websocket.http.response": {}}}
        await gate.middleware(app)(extended, receive, send)
    assert said[0] == {"type": "websocket.close", "code": 1008}
    assert (said[1]["type"], said[1]["status"]) == ("websocket.http.response.start", 401)


@pytest.mark.parametrize(
    ("root", "raw", "path"),
    [
        ("", b"/a%2Fb", "/a%2Fb"),
        ("/invoices", b"/invoices/7", "/7"),
        ("/invoices", b"/invoicesx", "/invoicesx"),
        ("", None, "/%C3%A9"),
    ],
)
async def test_the_rules_see_the_path_as_it_was_sent(
    root: str, raw: bytes | None, path: str
) -> None:
    portico = Portico()

    async def nothing(*_: Any) -> Any: ...

    scope = {
        "type": "http", "method": "GET", "path": "/é", "root_path": root, "headers": [],
        "client": ("192.0.2.7", 1), **({"raw_path": raw} if raw else {}),
    }  # fmt: skip
    asking: Any = {"transport": httpx.MockTransport(portico)}
    async with Gate(BASE, "a-key", "invoices", **asking) as gate:
        await gate.middleware(nothing)(scope, nothing, nothing)
    assert portico.asked == [
        {
            "credential": "", "service": "invoices", "method": "GET", "path": path,
            "address": "192.0.2.7",
        }
    ]  # fmt: skip
