"""Short requests to services that an operator has configured, such as identity providers."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from portico.outbound.exchange import Lazy, Unsent

if TYPE_CHECKING:
    from portico.outbound.client import PlainClient

SECONDS = 10.0
"""How long an answer may take, including its body."""

LONGEST = 262_144
"""The longest body that is read, in bytes."""


class Unfetched(Exception):
    """There was no usable answer. The message is for the log, and contains no secret."""


class Fetched(msgspec.Struct, frozen=True):
    """An answer."""

    status: int
    body: bytes


class Fetcher:
    """Sends requests over kept connections, without cookies, redirects, or proxy from the
    environment variables."""

    def __init__(self, tls: ssl.SSLContext | None = None, seconds: float = SECONDS) -> None:
        """`tls` has the trusted authorities; None: the system's."""
        self._seconds = seconds
        self._client: Lazy[PlainClient] = Lazy("PlainClient", tls)

    async def get(self, url: str, headers: Mapping[str, str]) -> Fetched:
        """The answer to a GET. Raises `Unfetched`."""
        return await self._send("GET", url, headers)

    async def post(self, url: str, headers: Mapping[str, str], form: Mapping[str, str]) -> Fetched:
        """The answer to a form. Raises `Unfetched`."""
        return await self._send("POST", url, headers, data=form)

    async def close(self) -> None:
        """Closes the kept connections."""
        await self._client.close()

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], **more: Any
    ) -> Fetched:
        client = await self._client.get()
        try:
            async with asyncio.timeout(self._seconds):
                status, body = await client.fetch(method, url, headers, longest=LONGEST, **more)
        except TimeoutError:
            raise Unfetched(f"no answer came in time, at {url!r:.200}") from None
        except Unsent as error:
            raise Unfetched(f"{error.reason}, at {url!r:.200}") from None
        if len(body) > LONGEST:
            raise Unfetched("the answer is too long")
        return Fetched(status, body)
