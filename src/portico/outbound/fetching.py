"""Short requests to a service that an operator has named, such as another provider's."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from portico.outbound.loading import load

if TYPE_CHECKING:
    from aiohttp import ClientSession

SECONDS = 10.0
"""How long an answer may take, its body included."""

LONGEST = 262_144
"""The longest body that is read, in bytes."""


class Unfetched(Exception):
    """No answer that can be used came. The text is for the log, and holds no secret."""


class Fetched(msgspec.Struct, frozen=True):
    """An answer."""

    status: int
    body: bytes


class Fetcher:
    """Sends requests over connections that are kept for a while, without cookies, redirects, or a
    proxy that the environment names."""

    def __init__(self, tls: ssl.SSLContext | None = None, seconds: float = SECONDS) -> None:
        """`tls` is whom to believe; None: the system's authorities."""
        self._tls = tls
        self._seconds = seconds
        self._loading = asyncio.Lock()
        self._session: ClientSession | None = None

    async def get(self, url: str, headers: Mapping[str, str]) -> Fetched:
        """The answer to a GET. Raises `Unfetched`."""
        return await self._send("GET", url, headers)

    async def post(self, url: str, headers: Mapping[str, str], form: Mapping[str, str]) -> Fetched:
        """The answer to a form. Raises `Unfetched`."""
        return await self._send("POST", url, headers, data=form)

    async def close(self) -> None:
        """Ends the connections that were kept."""
        if self._session is not None:
            await self._session.close()

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], **more: Any
    ) -> Fetched:
        session = self._session or await self._loaded()
        try:
            async with (
                asyncio.timeout(self._seconds),
                session.request(
                    method, url, headers=headers, allow_redirects=False, **more
                ) as response,
            ):
                body = b""
                while len(body) <= LONGEST and (part := await response.content.read(LONGEST)):
                    body += part
        except TimeoutError:
            raise Unfetched("no answer came in time") from None
        except Exception as error:  # noqa: BLE001 - whatever a stranger's answer has led to
            raise Unfetched(f"{type(error).__name__}: {error}") from None
        if len(body) > LONGEST:
            raise Unfetched("the answer is too long")
        return Fetched(response.status, body)

    async def _loaded(self) -> "ClientSession":
        async with self._loading:
            if self._session is None:
                _, make, tls = await load(self._tls)
                self._session = make(tls)
        return self._session
