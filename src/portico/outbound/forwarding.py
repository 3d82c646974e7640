"""Sends requests on to the services behind Portico, and streams their answers."""

import asyncio
import ssl
from typing import TYPE_CHECKING

from portico.outbound.exchange import ServiceRequest, load

if TYPE_CHECKING:
    from portico.outbound.client import Answered, ForwardClient


class Forwarder:
    """Sends requests over kept connections, without cookies, redirects or retries."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls` has the trusted authorities; None: the system's."""
        self._tls = tls
        self._client: ForwardClient | None = None
        self._loading = asyncio.Lock()

    async def send(self, origin: str, request: ServiceRequest, seconds: float) -> "Answered":
        """The answer, once its head has arrived. The service has `seconds` to take each part of the
        request's body, and after the last one to answer. Raises `Unsent`, `TimeoutError`, and what
        the body raises."""
        client = self._client or await self._loaded()
        return await client.send(origin, request, seconds)

    async def close(self) -> None:
        """Ends all connections."""
        if self._client is not None:
            await self._client.close()

    async def _loaded(self) -> "ForwardClient":
        async with self._loading:
            if self._client is None:
                _, _, make, tls = await load(self._tls)
                self._client = make(tls)
        return self._client
