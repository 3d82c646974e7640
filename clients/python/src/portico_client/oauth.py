"""OAuth sign-in: the authorization code flow with state, nonce and PKCE.

RFC 6749 as restricted by RFC 9700; RFC 7636, RFC 9207, OpenID Connect Core.
"""

import dataclasses
import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from portico_client.access import granted, token_request
from portico_client.credentials import Claims, OAuthTokens
from portico_client.errors import CallbackRejected, InvalidToken, OAuthError
from portico_client.flow import Flow, Response
from portico_client.reading import decode, error_of
from portico_client.retries import Retries, attempts

if TYPE_CHECKING:
    from portico_client.keys import Keys


@dataclass(frozen=True, slots=True)
class Authorization:
    """An authorization that has begun: send the browser to `url`.

    Keep it for this browser only, for example in its session, until the browser comes back; then
    drop it. All fields are strings: store `dataclasses.asdict(begun)` as JSON, and restore it with
    `Authorization(**stored)`.
    """

    url: str = field(repr=False)
    scope: str
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)


class Application:
    """A registered OAuth application. `apps` wraps it, synchronously and for asyncio."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        client_secret: str | None,
        redirect_uri: str,
        retries: Retries,
        clock: Callable[[], float],
    ) -> None:
        """`issuer` is the authorization server's address; `client_secret` is None for a public
        client; `clock` returns Unix seconds."""
        self._issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._redirect_uri = redirect_uri
        self._retries = retries
        self._clock = clock
        self._keys: Keys | None = None

    def begin(self, scope: str) -> Authorization:
        """An authorization for these scopes, with a new state, nonce and code verifier."""
        if "openid" in scope.split():
            self._issuer_keys()  # a missing package is reported now, not at the callback
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        parameters = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_uri,
            "scope": scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": _base64url(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        url = f"{self._issuer}/authorize?{urlencode(parameters)}"
        return Authorization(url, scope, state, nonce, verifier)

    def complete(self, callback_url: str, begun: Authorization) -> Flow[OAuthTokens]:
        """The tokens for the code of a callback. Raises `CallbackRejected`, `OAuthError`,
        `InvalidToken` for an invalid ID token, and what every request raises."""
        code = code_of(callback_url, begun.state, self._issuer)
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": begun.code_verifier,
        }
        held = OAuthTokens("", None, self._client_id, self._client_secret)
        now = self._clock()
        response = yield from attempts(token_request(self._issuer, held, fields), self._retries)
        if response.status != 200:
            raise error_of(response)
        tokens = granted(response, held, now)
        if "openid" not in begun.scope.split():
            return tokens
        identity = yield from self._identity(response, tokens, begun.nonce)
        return dataclasses.replace(tokens, identity=identity)

    def revoke(self, tokens: OAuthTokens) -> Flow[None]:
        """Revokes the access and refresh token (RFC 7009)."""
        fields = {"token": tokens.refresh_token or tokens.access_token}
        request = token_request(self._issuer, tokens, fields, endpoint="revoke")
        response = yield from attempts(request, self._retries)
        if response.status != 200:
            raise error_of(response)

    def _identity(self, response: Response, tokens: OAuthTokens, nonce: str) -> Flow[Claims]:
        """Who signed in (OpenID Connect Core §3.1.3.7)."""
        id_token = decode(response.content).get("id_token")
        if not isinstance(id_token, str):
            raise InvalidToken("there is no ID token")
        claims = yield from self._issuer_keys().verify(id_token, self._client_id)
        if not _same(claims.all.get("nonce"), nonce):
            raise InvalidToken("its nonce does not match")
        half = hashlib.sha256(tokens.access_token.encode()).digest()[:16]
        if "at_hash" in claims.all and not _same(claims.all["at_hash"], _base64url(half)):
            raise InvalidToken("it belongs to another access token")
        return claims

    def _issuer_keys(self) -> "Keys":
        # Imported only here: only applications that request `openid` need the extra [jwt].
        from portico_client.keys import Keys

        if self._keys is None:
            self._keys = Keys(self._issuer, self._retries, self._clock)
        return self._keys


def code_of(callback_url: str, state: str, issuer: str) -> str:
    """The code of a callback with this state from this issuer (RFC 9207). Raises `CallbackRejected`
    for any other callback, `OAuthError` if it carries an error."""
    pairs = parse_qsl(urlsplit(callback_url).query, keep_blank_values=True)
    sent = dict(pairs)
    if len(sent) < len(pairs):
        raise CallbackRejected("the callback has a parameter twice")
    if not _same(sent.get("state"), state):
        raise CallbackRejected("the callback's state does not match")
    if not _same(sent.get("iss"), issuer):
        raise CallbackRejected("the callback comes from another issuer")
    if "error" in sent:
        raise OAuthError(0, sent["error"], sent.get("error_description", sent["error"]))
    if not sent.get("code"):
        raise CallbackRejected("the callback has no code")
    return sent["code"]


def _same(sent: Any, ours: str) -> bool:
    """Compares a value with a string in constant time."""
    if not isinstance(sent, str):
        return False
    return hmac.compare_digest(sent.encode("utf-8", "surrogatepass"), ours.encode())


def _base64url(digest: bytes) -> str:
    return urlsafe_b64encode(digest).decode().rstrip("=")
