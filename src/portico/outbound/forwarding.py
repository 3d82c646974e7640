"""Sends requests on to the services behind Portico, and streams their answers."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from portico.outbound.exchange import load

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from portico.outbound.client import ForwardClient

PIECE = 64 * 1024

Pairs = Sequence[tuple[str, str]]


class Answered:
    """The head of a service's answer, and its body as it comes."""

    def __init__(self, response: "ClientResponse") -> None:
        self._response = response
        self.status = response.status
        self.headers = response.raw_headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body. Raises an error of aiohttp if it breaks off."""
        content = self._response.content
        while piece := await content.readany():
            yield piece

    def close(self) -> None:
        """Ends the exchange; if the body was read to its end, the connection stays open."""
        self._response.close()


class Forwarder:
    """Sends requests over kept connections, without cookies, redirects or retries."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls` has the trusted authorities; None: the system's."""
        self._tls = tls
        self._client: ForwardClient | None = None
        self._loading = asyncio.Lock()

    async def send(
        self, method: str, url: str, headers: Pairs, body: AsyncGenerator[bytes, None] | None
    ) -> Answered:
        """The answer, once its head has arrived. Raises `Unsent`, and what `body` raises."""
        client = await self.load()
        return Answered(await client.send(method, url, headers, body))

    async def close(self) -> None:
        """Ends all connections."""
        if self._client is not None:
            await self._client.close()

    async def load(self) -> "ForwardClient":
        """Loads the HTTP client, unless that was done."""
        if self._client is None:
            async with self._loading:
                if self._client is None:
                    _, _, make, tls = await load(self._tls)
                    self._client = make(tls)
        return self._client
