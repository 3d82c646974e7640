"""Credentials other than API keys, and the claims of a verified token. Printing one shows no
secret."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Login:
    """Signs in by e-mail and password for a JSON Web Token.

    The client signs in at the first call, refreshes the token before it expires, and signs in again
    if that is not possible. `otp` is called at each sign-in, for accounts with a second factor: it
    returns the code that the authenticator app shows, or a recovery code. After a code was refused,
    the next call asks for another; the same code is not sent again.
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
class Claims:
    """Who a token is about, and when it expires.

    `subject` is the user's id as text. `name` and `role` are set in login tokens and None in
    others. `all` has every claim, unchanged.
    """

    subject: str
    expires_at: datetime
    name: str | None
    role: str | None
    all: Mapping[str, Any] = field(repr=False)

    @property
    def amr(self) -> tuple[str, ...]:
        """How the user signed in (RFC 8176), such as `pwd` and `otp`. Only in ID tokens."""
        return tuple(self.all.get("amr", ()))

    @property
    def acr(self) -> str | None:
        """`2` for two factors, `1` for one. Only in ID tokens, None in others."""
        return self.all.get("acr")

    @property
    def user_id(self) -> int:
        """The user's id."""
        return int(self.subject)


@dataclass(frozen=True, slots=True)
class OAuthTokens:
    """The tokens of a user who signed in to an application by OAuth.

    A refresh token can be used once; reusing it revokes all tokens. So the call that renews the
    tokens calls `on_change` with the new ones before it continues, to store them; with
    `AsyncClient` it may be `async`. If `on_change` raises an error, the call raises it too, and the
    next call calls `on_change` again first. Other calls meanwhile use the new tokens and do not
    wait, so `on_change` may make calls itself. `scopes` are those that the user granted; `identity`
    is who signed in, if `openid` was requested. Without a `refresh_token` the tokens cannot be
    renewed.
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
