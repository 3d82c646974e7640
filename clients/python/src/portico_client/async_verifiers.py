"""Verifiers of Portico's tokens for other services, for asyncio.

Needs `portico-client[jwt]`. A verified token was valid when it was issued. Only Portico itself
knows whether it was revoked since. Login tokens are valid for an hour at most.
"""

from typing import Unpack

from portico_client.connection import address
from portico_client.credentials import Claims
from portico_client.drivers import AsyncClosing, AsyncDriver, AsyncOptions
from portico_client.keys import Keys


class AsyncTokenVerifier(AsyncClosing):
    """Verifies tokens of one issuer for one audience, for asyncio. Tasks may share it.

    The issuer's public keys are fetched when they are first needed, cached for 15 minutes, and
    fetched again if a token names a new one; at most once in ten seconds.
    """

    def __init__(self, issuer: str, audience: str, **options: Unpack[AsyncOptions]) -> None:
        """`issuer` is the `auth_url` of the service. `audience` is what tokens must be issued for:
        the `base_url` for login tokens, a client's id for ID tokens."""
        self._driver = AsyncDriver(options)
        self._audience = audience
        self._keys = Keys(address(issuer), self._driver.retries, self._driver.clock)

    async def close(self) -> None:
        """Closes the connections."""
        await self._driver.close()

    async def verify(self, token: str) -> Claims:
        """The claims of a token, after checking its signature (RS256), `exp`, `nbf`, `iss` and
        `aud`.

        Raises `InvalidToken` if it must not be trusted; `ConnectionFailed` or `APIError` if the
        issuer's keys cannot be fetched.
        """
        return await self._driver.run(self._keys.verify(token, self._audience))
