# Generated from async_verifiers.py: do not edit it, run clients/python/generate.py.
"""Verifiers of Portico's tokens for other services.

Needs `portico-client[jwt]`. A verified token was valid when it was issued. Only Portico itself
knows whether it was revoked since. Login tokens are valid for an hour at most.
"""

from typing import Unpack

from portico_client.connection import address
from portico_client.credentials import Claims
from portico_client.drivers import Closing, Driver, Options
from portico_client.keys import Keys


class TokenVerifier(Closing):
    """Verifies tokens of one issuer for one audience. Threads may share it.

    The issuer's public keys are fetched when they are first needed, cached for 15 minutes, and
    fetched again if a token names a new one; at most once in ten seconds.
    """

    def __init__(self, issuer: str, audience: str, **options: Unpack[Options]) -> None:
        """`issuer` is the `auth_url` of the service. `audience` is what tokens must be issued for:
        the `base_url` for login tokens, a client's id for ID tokens."""
        self._driver = Driver(options)
        self._audience = audience
        self._keys = Keys(address(issuer), self._driver.retries, self._driver.clock)

    def close(self) -> None:
        """Closes the connections."""
        self._driver.close()

    def verify(self, token: str) -> Claims:
        """The claims of a token, after checking its signature (RS256), `exp`, `nbf`, `iss` and
        `aud`.

        Raises `InvalidToken` if it must not be trusted; `ConnectionFailed` or `APIError` if the
        issuer's keys cannot be fetched.
        """
        return self._driver.run(self._keys.verify(token, self._audience))
