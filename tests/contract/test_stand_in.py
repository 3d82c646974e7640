"""The transport of these tests tells the application what granian would."""

import asyncio
from typing import Any

import pytest
from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server as Granian

from driving import Api, Application, InProcess
from operating import free_port

TARGETS = [
    "/v1/users?page=1&limit=%ff",
    "/a%20b%2Fc/%c3%a9?x=+&y=%zz&&",
    "/a%ff%ed%a0%80",
    "/a%00?",
    "//v1//users",
    "/%",
    "/%zz",
    "/v1/users?a?b",
]
HEADERS = [("accept", "text/html"), ("accept", "application/json"), ("X-Mixed", "Case")]


class Recorder:
    """Answers with nothing, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        """Answers one request."""
        headers = [(name, scope.headers.get_all(name)) for name in ("accept", "x-mixed", "x-none")]
        first = scope.headers.get("accept"), scope.headers.get("x-none")
        body = b"".join([bytes(chunk) async for chunk in proto])
        self.told.append((scope.method, scope.path, scope.query_string, first, headers, body))
        proto.response_bytes(200, [("x-answer", "1")], b"hello")


async def over_the_wire(application: Application, requests: list[tuple[str, str]]) -> list[bytes]:
    """The raw answers of a granian that serves `application`."""
    port = free_port()
    server: Any = Granian(
        application,
        address="127.0.0.1",
        port=port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http1,
        websockets=False,
        log_enabled=False,
    )
    serving = asyncio.create_task(server.serve())
    fields = "".join(f"{name}: {value}\r\n" for name, value in HEADERS)
    answers = []
    try:
        async with asyncio.timeout(60):
            for method, target in requests:
                reader, writer = await connected(port)
                head = f"{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{fields}"
                writer.write(f"{head}content-length: 4\r\n\r\nbody".encode())
                answers.append(await reader.read())
                writer.close()
                await writer.wait_closed()
    finally:
        server.stop()
        await serving
    return answers


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("environ", [{}], ids=["sqlite+memory"])
async def test_the_in_process_transport_equals_granian(api: Api) -> None:
    requests = [(method, target) for target in TARGETS for method in ("GET", "HEAD", "PATCH")]
    real, told = Recorder(), Recorder()
    raw = await over_the_wire(real, requests)
    api.application = told
    answers = [
        await InProcess(api).exchange(method, target, HEADERS, b"bo", b"dy")
        for method, target in requests
    ]
    assert told.told == real.told
    for answer, wire in zip(answers, raw, strict=True):
        assert comparable(wire) == (
            answer.status_code,
            answer.headers["content-length"],
            answer.content,
        )


def comparable(wire: bytes) -> tuple[int, str, bytes]:
    head, _, body = wire.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    fields = {name: value for name, _, value in (line.partition(": ") for line in lines)}
    return int(status.split()[1]), fields["content-length"], body
