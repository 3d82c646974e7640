"""Requests below a service's path: who may pass, and what the service and the client see."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest

from declared_services import DECLARED
from driving import Api, refused
from portico.core.requests import NO_KEY, NOBODY, RequestCounts

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Upstream:
    """A service that records what it gets, and answers with `reply` once it has `wanted` bytes of a
    body."""

    def __init__(self) -> None:
        self.port = 0
        self.got: list[bytes] = []
        self.reply = OK
        self.serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()
            self.serving.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.got.append(head)
                if b"\r\ntransfer-encoding: chunked" in head.lower():
                    self.got.append(await reader.readuntil(b"\r\n0\r\n\r\n"))
                elif b"\r\ncontent-length: " in head.lower():
                    length = head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r")[0]
                    self.got.append(await reader.readexactly(int(length)))
                writer.write(self.reply)
                await writer.drain()
                if b"content-length" not in self.reply:
                    return

    @property
    def lines(self) -> list[str]:
        """The lines of the last head."""
        return next(one for one in reversed(self.got) if b"HTTP/1.1" in one).decode().split("\r\n")


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    made = Upstream()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    for task in list(made.serving):
        task.cancel()
    await asyncio.gather(*made.serving, return_exceptions=True)


@pytest.fixture
def environ() -> dict[str, str]:
    """What is decided before any row is read needs one engine."""
    return {}


@pytest.fixture
def declared(upstream: Upstream) -> str:
    changed = DECLARED.replace('"http://127.0.0.1:9"', f'"http://127.0.0.1:{upstream.port}/in"')
    return changed.replace(
        'path = "/invoices"\n', 'path = "/invoices"\nmax_body = 100\ntimeout_seconds = 5\n', 1
    )


async def test_a_request_arrives_with_who_asks_and_without_the_credential(
    api: Api, upstream: Upstream
) -> None:
    caller = await api.caller("viewer", plan="free")
    answer = await caller.get(
        "/invoices/a//b;c?x=%2F&y=",
        headers={"accept": "text/x", "cookie": "a=1; __Host-session=s; b=2", "x-own": "1"},
    )
    assert (answer.status_code, answer.content) == (200, b"ok")
    assert answer.headers["x-ratelimit-remaining"] == "29"
    assert upstream.lines[0] == "GET /in/a//b;c?x=%2F&y= HTTP/1.1"
    sent = dict(line.lower().split(": ", 1) for line in upstream.lines[1:] if line)
    assert "authorization" not in sent
    assert (sent["cookie"], sent["x-own"], sent["accept"]) == ("a=1; b=2", "1", "text/x")
    assert sent["x-portico-user"] == str(caller.user.id)
    assert sent["x-portico-environment"] == "live"
    assert sent["x-portico-identity"].count(".") == 2
    assert (sent["x-forwarded-for"], sent["x-forwarded-proto"]) == ("127.0.0.1", "https")
    assert sent["x-forwarded-host"] == "localhost:8443"
    assert sent["x-request-id"] == answer.headers["x-request-id"]


async def test_bodies_pass_both_ways_and_are_bounded(api: Api, upstream: Upstream) -> None:
    editor = await api.caller("editor")
    upstream.reply = (
        b"HTTP/1.1 201 Made\r\nset-cookie: a=1\r\nset-cookie: b=2\r\nx-portico-user: 1\r\n"
        b"x-request-id: theirs\r\ncontent-type: text/x\r\ncontent-length: 3\r\n\r\nabc"
    )
    answer = await editor.post("/invoices/bulk", content=b"x" * 100)
    assert (answer.status_code, answer.content) == (201, b"abc")
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert "x-portico-user" not in answer.headers
    assert answer.headers.get_list("x-request-id") != ["theirs"]
    assert upstream.got[-1] == b"x" * 100
    refused(await editor.post("/invoices/bulk", content=b"x" * 101), 413)

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 10

    refused(await editor.post("/invoices/bulk", content=parts()), 413)


async def test_who_may_not_pass_never_reaches_the_service(api: Api, upstream: Upstream) -> None:
    tester = await api.caller("viewer", "test")
    stranger = api.stranger(authorization=f"Bearer {tester.key}")
    refused(await stranger.get("/invoices/7"), 401)
    refused(await tester.get("/invoices/7"), 502, "BAD_GATEWAY")  # of the sandbox's own
    refused(await api.stranger().get("/invoices/7"), 401)
    refused(await (await api.caller("viewer")).post("/invoices/bulk"), 403)
    caller = await api.caller("viewer")
    answers = [await caller.get("/invoices/heavy/1") for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert len(upstream.got) == 2
    refused(answers[-1], 429, "RATE_LIMITED")


REFUSED: list[tuple[str, str, dict[str, str], int]] = [
    ("GET", "/invoices/a/..%2fb", {}, 400),
    ("GET", "/invoices/7?a=%zz", {}, 400),
    ("TRACE", "/invoices/7", {}, 501),
    ("GET", "/invoices/status", {"upgrade": "websocket"}, 501),
    ("GET", "/invoices/7", {}, 401),
]


async def test_what_is_refused_before_anybody_is_asked_counts_by_address(
    api: Api, upstream: Upstream
) -> None:
    for left, (method, path, headers, status) in zip(range(29, 0, -1), REFUSED, strict=False):
        answer = await api.stranger().request(method, path, headers=headers)
        refused(answer, status)
        assert answer.headers["x-ratelimit-remaining"] == str(left), path
    for _ in range(left):
        await api.stranger().get("/invoices/7")
    refused(await api.stranger().request("TRACE", "/invoices/7"), 429)
    assert upstream.got == []


async def test_public_requests_take_their_cost_from_the_address(
    api: Api, upstream: Upstream
) -> None:
    left = [
        (await api.stranger().get(f"/invoices/{path}")).headers["x-ratelimit-remaining"]
        for path in ("status", "alive", "alive", "status")
    ]
    assert left == ["29", "29", "29", "28"]
    assert len(upstream.got) == 4


async def test_each_request_counts_once_with_the_status_that_the_client_got(
    api: Api, upstream: Upstream
) -> None:
    caller, counts = await api.caller("viewer"), api.live[RequestCounts]
    counts.take()
    upstream.reply = OK.replace(b"200 OK", b"404 None")
    await caller.get("/invoices/7")
    upstream.reply = b"nonsense\r\n\r\n"
    refused(await caller.get("/invoices/7"), 502)
    refused(await caller.post("/invoices/bulk"), 403)
    await api.stranger().get("/invoices/7")
    made, failed = counts.take()
    key, hour, label = caller.record.id, api.clock() // 3_600_000, "forward invoices"
    assert made == {
        (caller.user.id, hour, label, 404, key): (1, 1),
        (caller.user.id, hour, label, 502, key): (1, 1),
        (caller.user.id, hour, label, 403, key): (1, 7),
        (NOBODY, hour, label, 401, NO_KEY): (1, 0),
    }
    assert [one.code for one in failed] == ["", "BAD_GATEWAY", "PERMISSION_DENIED"]


async def test_a_body_flows_as_it_comes(api: Api, upstream: Upstream) -> None:
    upstream.reply = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n"
    caller = await api.caller("viewer")
    request = httpx.Request("GET", "https://localhost:8443/v1/invoices/7", headers=caller.headers)
    answer = await caller.send(request, stream=True)
    first = await anext(answer.aiter_bytes())
    assert (answer.headers["content-type"], first) == ("text/event-stream", b"data: 1\n\n")
