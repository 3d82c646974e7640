"""Verifying Portico's tokens in one's own services, for callers that block and for asyncio.

Needs `portico-client[jwt]`. A verified token was good when it was issued: whether it was revoked
since, only the service itself can tell. Login tokens hold an hour at most.
"""

from typing import Unpack

from portico_client.claims import Claims
from portico_client.connection import address
from portico_client.drivers import AsyncClosing, AsyncDriver, AsyncOptions, Closing, Driver, Options
from portico_client.keys import Keys


class TokenVerifier(Closing):
    """Verifies tokens of one issuer for one audience, for callers that block. Threads may share it.

    The issuer's public keys are fetched when they are first needed, kept for a quarter of an hour,
    and fetched again where a token names a new one; at most once in ten seconds.
    """

    def __init__(self, issuer: str, audience: str, **options: Unpack[Options]) -> None:
        """`issuer` is the `auth_url` of the service, `audience` what tokens must be meant for: the
        `base_url` for login tokens, a client's id for ID tokens."""
        self._driver = Driver(options)
        self._audience = audience
        self._keys = Keys(address(issuer), self._driver.retries, self._driver.clock)

    def close(self) -> None:
        """Closes the connections."""
        self._driver.close()

    def verify(self, token: str) -> Claims:
        """What a token says, once signature (RS256), `exp`, `nbf`, `iss` and `aud` are right.

        Raises `InvalidToken` for one that must not be believed; `ConnectionFailed` and `APIError`
        where the issuer's keys cannot be had.
        """
        return self._driver.run(self._keys.verify(token, self._audience))


class AsyncTokenVerifier(AsyncClosing):
    """Verifies tokens of one issuer for one audience, for asyncio. Tasks may share it.

    The issuer's public keys are fetched when they are first needed, kept for a quarter of an hour,
    and fetched again where a token names a new one; at most once in ten seconds.
    """

    def __init__(self, issuer: str, audience: str, **options: Unpack[AsyncOptions]) -> None:
        """`issuer` is the `auth_url` of the service, `audience` what tokens must be meant for: the
        `base_url` for login tokens, a client's id for ID tokens."""
        self._driver = AsyncDriver(options)
        self._audience = audience
        self._keys = Keys(address(issuer), self._driver.retries, self._driver.clock)

    async def close(self) -> None:
        """Closes the connections."""
        await self._driver.close()

    async def verify(self, token: str) -> Claims:
        """What a token says, once signature (RS256), `exp`, `nbf`, `iss` and `aud` are right.

        Raises `InvalidToken` for one that must not be believed; `ConnectionFailed` and `APIError`
        where the issuer's keys cannot be had.
        """
        return await self._driver.run(self._keys.verify(token, self._audience))
