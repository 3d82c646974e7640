"""Stand-ins for a server: what the library sends is kept, what it gets is written beforehand."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import settings

from documents import ROOT
from portico_client import AsyncClient, Client
from portico_client.errors import PorticoError
from portico_client.flow import Response

CASES = settings(deadline=None)
"""How properties are tried: on a busy machine one case may take a while."""

KEY = "an-api-key"
PLACE = "https://portico.example/v1"

PAGE = {"page": 1, "limit": 25, "total_items": 1, "total_pages": 1}

Step = Response | PorticoError | httpx.RequestError
Asked = Callable[[httpx.Request], httpx.Response]


def table(name: str) -> Any:
    """A table of the cases that every client keeps."""
    return json.loads((ROOT / "clients/cases" / name).read_text("utf-8"))


def answer(status: int, body: Any = None, **headers: str) -> Response:
    """An answer with a JSON body; `_` in the names of headers is a hyphen."""
    content = b"" if body is None else json.dumps(body).encode()
    return Response(
        status, {name.replace("_", "-"): text for name, text in headers.items()}, content
    )


def refusal(status: int, code: str, **headers: str) -> Response:
    """An error of the API."""
    return answer(status, {"error": {"code": code, "message": "No.", "details": []}}, **headers)


class Parts(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that comes in parts; an error among them breaks it off."""

    def __init__(self, *parts: bytes | httpx.RequestError) -> None:
        self._parts = parts
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            if isinstance(part, Exception):
                raise part
            yield part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


class Scripted(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers one request after the other as it was told, for both kinds of client."""

    def __init__(self, *steps: Step | Asked) -> None:
        self._steps = list(steps)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, Response):
            return httpx.Response(step.status, headers=dict(step.headers), content=step.content)
        return step(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`. Others get their turn before the answer is there."""
        await asyncio.sleep(0)
        return self.handle_request(request)


DATA: dict[str, Any] = table("calls.json")["data"]
PRODUCT, ROTATED = DATA["product"], DATA["rotated"]
ANYBODY = {
    "id": 1,
    "name": "Ada",
    "email": "ada@example.com",
    "role": "viewer",
    "created_at": "2026-03-15T12:00:00.000Z",
    "updated_at": "2026-03-15T12:00:00.000Z",
    "avatar_url": None,
    "last_login_at": None,
    "preferences": {"theme": "dark", "language": "en", "notifications": True},
}
ME = answer(200, {"data": ANYBODY})
TOKENS = {"access_token": "a", "refresh_token": "r", "token_type": "Bearer", "expires_in": 3600}


@dataclass(frozen=True)
class Face:
    """One of the library's faces: how to make its things, and how to have what they give."""

    name: str
    client: Callable[..., Any]
    slept: Callable[[list[float]], Callable[[float], Any]]


def noting(waits: list[float]) -> Callable[[float], Any]:
    """How an asynchronous client waits: it only notes how long."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return sleep


BLOCKING = Face("blocking", Client, lambda waits: waits.append)
ASYNCIO = Face("asyncio", AsyncClient, noting)
FACES = pytest.mark.parametrize("face", [BLOCKING, ASYNCIO], ids=lambda face: face.name)


def had(given: Any) -> Any:
    """What a call gives, awaited where that is needed."""

    async def waited() -> Any:
        return await given

    return asyncio.run(waited()) if inspect.isawaitable(given) else given


def listed(listing: Any) -> list[int]:
    """The ids of a whole list."""
    if hasattr(listing, "__iter__"):
        return [one.id for one in listing]

    async def all_of_it() -> list[int]:
        return [one.id async for one in listing]

    return asyncio.run(all_of_it())
