"""What the HTTP clients share with their users, and how they are loaded: with the first request,
since most installations send none."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from portico.outbound.client import ForwardClient, HttpClient, PlainClient

    Loaded = tuple[type[HttpClient], type[PlainClient], type[ForwardClient], ssl.SSLContext]

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


async def load(tls: ssl.SSLContext | None) -> "Loaded":
    """The client of deliveries, that of plain requests, that of requests to services, and the
    trusted authorities: `tls`, or the system's."""
    # In a thread: it would block the event loop for too long.
    return await asyncio.to_thread(_load, tls)


def _load(tls: ssl.SSLContext | None) -> "Loaded":
    from portico.outbound.client import ForwardClient, HttpClient, PlainClient

    return HttpClient, PlainClient, ForwardClient, tls or ssl.create_default_context()
