"""What the HTTP clients share with their users, and how they are loaded."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from portico.outbound.client import ForwardClient, HttpClient, PlainClient

LookUp = Callable[[str], Sequence[str]]
"""Returns the addresses of a name, best first. It may block for any time. Raises `OSError` if there
are none."""


class Unsent(Exception):
    """There was no answer. `reason` is for people, and contains nothing that the receiver sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HttpReply(msgspec.Struct, frozen=True):
    """A receiver's answer, as far as it was read; `arrived` is when its status arrived, by the
    loop's clock."""

    status: int
    retry_after: str | None
    body: bytes
    arrived: float


class ServiceRequest(msgspec.Struct, frozen=True):
    """A request to a service. `target` is its path and query, `headers` say how the body is framed;
    the text of all is ASCII without line breaks."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: AsyncGenerator[bytes, None] | None = None
    chunked: bool = False


class Document(msgspec.Struct, frozen=True):
    """What a GET of somebody's document found. A body that was too long is one byte longer than was
    asked for, or more."""

    status: int
    cache_control: str
    body: bytes


C = TypeVar("C", "HttpClient", "PlainClient", "ForwardClient")


class Lazy(Generic[C]):
    """An HTTP client that is loaded and made with the first request, since most installations send
    none."""

    def __init__(self, name: str, tls: ssl.SSLContext | None, *parts: object) -> None:
        """`name` is that of the class; `tls` has the trusted authorities, None: the system's;
        `parts` are what it needs besides."""
        self._name = name
        self._tls = tls
        self._parts = parts
        self._client: C | None = None
        self._loading = asyncio.Lock()

    async def get(self) -> C:
        """The client."""
        async with self._loading:
            if self._client is None:
                # In a thread: it would block the event loop for too long.
                make, tls = await asyncio.to_thread(self._load)
                self._client = make(*self._parts, tls)
        return self._client

    async def close(self) -> None:
        """Ends all connections."""
        if self._client is not None:
            await self._client.close()

    def _load(self) -> tuple[Callable[..., C], ssl.SSLContext]:
        client = import_module("portico.outbound.client")
        return getattr(client, self._name), self._tls or ssl.create_default_context()


Forwarder: TypeAlias = "Lazy[ForwardClient]"
"""The client of the services behind Portico."""
