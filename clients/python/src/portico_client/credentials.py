"""Ways to sign in other than by API key. None of them shows a secret when it is printed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from portico_client.claims import Claims


@dataclass(frozen=True, slots=True)
class Login:
    """Signs in by e-mail and password for a JSON Web Token.

    The client signs in at the first call, refreshes the token before it ends, and signs in again
    where that is not possible. `otp` is called at each sign-in, for accounts with a second factor:
    it returns the code that the authenticator app shows, or a recovery code. After a code was
    refused the next call asks for another; the same one is not sent again.
    """

    email: str
    password: str = field(repr=False)
    otp: Callable[[], str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SessionLogin:
    """Signs in by e-mail and password for a session cookie.

    The client signs in at the first call, and again once the session has ended: 30 minutes after
    its last call, or 24 hours after it began. `otp` as in `Login`.
    """

    email: str
    password: str = field(repr=False)
    otp: Callable[[], str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class OAuthTokens:
    """What an application holds of a user who signed in by OAuth.

    A refresh token is good for one use, and its reuse ends all: the call that renews the tokens
    calls `on_change` with the new ones before it goes on, so that they can be stored; under
    `AsyncClient` it may be `async`. What it raises that call raises, and the next call calls it
    again first. Calls that come meanwhile use the new tokens and do not wait for it, so it may make
    calls itself. `scopes` is what the user granted; `identity` is who signed in, where `openid` was
    asked for. Without a `refresh_token` the tokens end with the access token.
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None
    scopes: frozenset[str] = frozenset()
    identity: Claims | None = None
    on_change: Callable[["OAuthTokens"], Any] | None = field(
        default=None, repr=False, compare=False
    )


Credential = Login | SessionLogin | OAuthTokens
