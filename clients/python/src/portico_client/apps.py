# Generated from async_apps.py: do not edit it, run clients/python/generate.py.
"""OAuth sign-in for the users of a web application."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

from portico_client.connection import authority
from portico_client.credentials import OAuthTokens
from portico_client.drivers import Closing, Driver, Options
from portico_client.oauth import Application, Authorization


class OAuthApp(Closing):
    """A registered OAuth application. Threads may share it."""

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        redirect_uri: str,
        auth_url: str | None = None,
        on_change: Callable[[OAuthTokens], Any] | None = None,
        **options: Unpack[Options],
    ) -> None:
        """`client_secret` is None for a public client; `redirect_uri` is a registered one;
        `auth_url` is the authorization server's address, as in `Client`; `on_change` is passed to
        the tokens, see `OAuthTokens`."""
        self._driver = Driver(options)
        self._on_change = on_change
        self._app = Application(
            authority(auth_url),
            client_id,
            client_secret,
            redirect_uri,
            self._driver.retries,
            self._driver.clock,
        )

    def close(self) -> None:
        """Closes the connections."""
        self._driver.close()

    def begin(self, scope: str) -> Authorization:
        """Begins to sign a user in: redirect the browser to the `url` of the result, and keep the
        result for this browser. `scope` is space-separated; `openid` requests the user's
        identity."""
        return self._app.begin(scope)

    def complete(self, callback_url: str, begun: Authorization) -> OAuthTokens:
        """The tokens of the user. `callback_url` is the address at which the browser came back to
        the redirect URI.

        Raises `CallbackRejected` if the callback does not belong to `begun`, before its code is
        sent anywhere; `OAuthError` if the user or the service refused; `InvalidToken` if the ID
        token is not valid.
        """
        tokens = self._driver.run(self._app.complete(callback_url, begun))
        return replace(tokens, on_change=self._on_change)

    def revoke(self, tokens: OAuthTokens) -> None:
        """Signs the user out: revokes the tokens."""
        self._driver.run(self._app.revoke(tokens))
