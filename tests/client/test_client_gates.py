"""The gates of both clients, in front of FastAPI, Express and a fetch handler: with what Portico
forwards, and with requests that reach the service past Portico."""

import asyncio
import json
import re
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
import uvicorn
from fastapi import Depends, FastAPI, Request
from joserfc import jwt

from client.issuing import AUTH, BASE, GOOD, NOW, key, public
from client.programs import key_of, listening, new_key, one_worker
from oauth.authority import Authority
from operating import TIMEOUT_SECONDS, until
from portico_client import APIError, Caller, Gate


def service(gate: Gate) -> Any:
    """A service in FastAPI where the rules decide, and below /alone one scope."""
    app, alone = FastAPI(), FastAPI()
    reads, writes = gate.require("read:invoices"), gate.require("write:invoices")

    @app.get("/status")
    async def status() -> dict[str, str]:
        return {"status": "fine"}

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def invoice(request: Request, caller: Annotated[Caller, Depends(reads)]) -> Any:
        assert request.scope["portico.caller"] == caller
        return {"user": caller.user_id, "plan": caller.plan, "credential": caller.credential}

    @alone.post("/{path:path}")
    async def written(caller: Annotated[Caller, Depends(writes)]) -> Any:
        return {"user": caller.user_id, "plan": caller.plan, "credential": caller.credential}

    guarded = gate.middleware(app)

    async def both(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        await (alone if path.startswith("/alone/") else guarded)(scope, receive, send)

    return both


@contextmanager
def in_fastapi(served: Authority, verifying: str, port: int) -> Iterator[None]:
    """The service, as uvicorn serves it."""
    running: list[uvicorn.Server] = []

    async def serve() -> None:
        ca = str(served.certificate)
        async with Gate(served.api, verifying, "invoices", path="/invoices", ca=ca) as gate:
            config = uvicorn.Config(
                service(gate), port=port, log_level="error", lifespan="off", ws="none"
            )
            running.append(uvicorn.Server(config))
            await running[0].serve()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    until(lambda: running and running[0].started)
    yield
    running[0].should_exit = True
    thread.join()


GUARDED = """
import { createServer } from "node:http";
import express from "express";
import { Gate } from "@portico/client";

const [base, key, port, way] = process.argv.slice(2);
const gate = new Gate(base, key, "invoices", { path: "/invoices" });
const told = ({ userId, plan, credential } = {}) => ({ user: userId, plan, credential });

const app = express();
app.use("/misled", new Gate(base, "sk_live_x", "invoices").express());
const alone = gate.express("write:invoices");
app.post("/alone/:id", alone, ({ portico }, answer) => answer.json(told(portico)));
app.use(gate.express());
app.get("/status", (_request, answer) => answer.json({ status: "fine" }));
app.use(gate.express("read:invoices"), ({ portico }, answer) => answer.json(told(portico)));

const answer = (_request, caller) => Response.json(told(caller));
const written = gate.fetch("write:invoices", answer);
const ruled = gate.fetch(undefined, answer);
const handled = async ({ url, method, headers }, outgoing) => {
  const request = new Request(`http://service${url}`, { method, headers });
  const found = await (url.startsWith("/alone/") ? written : ruled)(request);
  outgoing.writeHead(found.status, Object.fromEntries(found.headers)).end(await found.text());
};
const server = createServer(way === "express" ? app : handled);
server.listen(Number(port), "127.0.0.1", () => console.log("listening"));
"""
FASTAPI = "fastapi"
EXPRESS, FETCH = (pytest.param(way, marks=one_worker) for way in ("express", "fetch"))


@pytest.fixture(scope="module", params=[FASTAPI, EXPRESS, FETCH])
def place(request: pytest.FixtureRequest, served: Authority, service_port: int) -> Iterator[str]:
    """The address of the running service."""
    verifying = new_key(served, name="Service", scopes=["verify"])
    if request.param == FASTAPI:
        with in_fastapi(served, verifying, service_port):
            yield f"http://127.0.0.1:{service_port}"
        return
    package: Path = request.getfixturevalue("package")
    program = package.parents[2] / "guarded.mjs"
    program.write_text(GUARDED)
    argv = ("node", program, served.api, verifying, str(service_port), str(request.param))
    with listening(served, program.with_suffix(".said"), *argv) as said:
        assert said == "listening"
        yield f"http://127.0.0.1:{service_port}"


def sent(
    served: Authority, address: str, method: str = "GET", headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """What is answered at this address."""
    trusted = ssl.create_default_context(cafile=served.certificate)
    return httpx.request(method, address, headers=headers, verify=trusted, timeout=TIMEOUT_SECONDS)


def bearer(served: Authority, role: str, plan: str = "", **more: Any) -> dict[str, str]:
    """The header of a new user."""
    return {"authorization": f"Bearer {key_of(served, role, plan, **more)}"}


@pytest.fixture(scope="module")
def viewer(served: Authority) -> dict[str, str]:
    return bearer(served, "viewer")


PAST_PORTICO = [
    ("viewer", "GET", "/7?a=b", 200),
    ("viewer", "POST", "/7", 403),
    ("viewer", "PUT", "/7", 403),
    ("viewer", "GET", "/a%5cb", 400),
    ("viewer", "GET", "/a%00", 400),
    ("", "GET", "/status", 200),
    ("", "GET", "/7", 401),
    ("Bearer sk_live_x", "GET", "/7", 401),
    ("Bearer sk_live_x", "GET", "/status", 200),
    ("Basic eDp5", "GET", "/7", 401),
]
"""Who sends what to a service, and what they get."""


@pytest.mark.parametrize(("sender", "method", "path", "status"), PAST_PORTICO)
def test_past_portico_a_gate_answers_as_portico_does(
    served: Authority,
    viewer: dict[str, str],
    place: str,
    sender: str,
    method: str,
    path: str,
    status: int,
) -> None:
    headers = viewer if sender == "viewer" else {"authorization": sender} if sender else {}
    ours, theirs = (
        sent(served, f"{where}{path}", method, headers)
        for where in (place, f"{served.api}/invoices")
    )
    assert (ours.status_code, theirs.status_code) == (status, status), ours.text
    names = ["x-ratelimit-limit"] if sender == "viewer" and status != 400 else []
    if status >= 400:
        names += ["content-type", "cache-control", "x-content-type-options"]
        assert ours.json()["error"]["code"] == theirs.json()["error"]["code"]
    if status == 401:  # the gate does not know which rule decides, and so which scope is needed
        told = re.sub(r'scope="[^"]*", ', "", theirs.headers["www-authenticate"])
        assert ours.headers["www-authenticate"] == told
        assert "resource_metadata=" in told
    elif status >= 400:
        assert ours.json() == theirs.json()
    for name in names:
        assert ours.headers[name] == theirs.headers[name], name


def test_what_portico_forwards_is_trusted_and_each_request_counted_once(
    served: Authority, place: str
) -> None:
    own = bearer(served, "viewer", "tiny")
    forwarded = [sent(served, f"{served.api}/invoices/7", headers=own) for _ in range(2)]
    past = [sent(served, f"{place}/7", headers=own) for _ in range(2)]
    refused = sent(served, f"{served.api}/invoices/7", headers=own)
    left = [one.headers.get_list("x-ratelimit-remaining") for one in (*forwarded, *past)]
    assert left == [["2"], ["1"], ["0"], ["0"]]
    assert forwarded[0].json() == past[0].json()
    assert forwarded[0].json()["plan"] == "tiny"
    assert (past[1].status_code, past[1].json()) == (429, refused.json())
    for name in ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"):
        assert past[1].headers[name] == refused.headers[name]
    assert 0 < int(refused.headers["retry-after"]) <= int(past[1].headers["retry-after"])


def test_a_scope_alone_is_asked_for_and_its_lack_answered_as_by_portico(
    served: Authority, viewer: dict[str, str], place: str
) -> None:
    address = f"{place}/alone/7"
    assert sent(served, address, "POST", bearer(served, "editor")).json()["plan"] == "free"
    ours, theirs = (
        sent(served, one, "POST", viewer) for one in (address, f"{served.api}/invoices/alone/7")
    )
    assert (ours.status_code, ours.json()) == (403, theirs.json())
    assert ours.headers["www-authenticate"] == theirs.headers["www-authenticate"]
    assert 'scope="write:invoices", resource_metadata=' in ours.headers["www-authenticate"]
    assert ours.headers["x-ratelimit-limit"] == "1000000"
    assert "read-only" in sent(served, address, "POST", bearer(served, "editor", type="read")).text
    nobody = sent(served, address, "POST")
    assert (nobody.status_code, nobody.json()["error"]["code"]) == (401, "AUTHENTICATION_REQUIRED")
    assert nobody.headers["www-authenticate"].startswith('Bearer scope="write:invoices", resource')
    forged = sent(served, address, "POST", {"x-portico-identity": "a.b.c"})
    assert (forged.status_code, "not trusted" in forged.text) == (401, True)


@pytest.mark.parametrize("place", [EXPRESS], indirect=True)
def test_in_express_a_key_that_may_not_verify_is_no_refusal_of_the_caller(
    served: Authority, viewer: dict[str, str], place: str
) -> None:
    assert sent(served, f"{place}/misled/7", headers=viewer).status_code == 500


@pytest.mark.parametrize("place", [FASTAPI, EXPRESS], indirect=True)
def test_a_keys_networks_are_those_of_the_caller(served: Authority, place: str) -> None:
    for network, status in (("127.0.0.0/8", 200), ("192.0.2.0/24", 403)):
        own = bearer(served, "viewer", networks=[network])
        assert sent(served, f"{place}/7", headers=own).status_code == status


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
