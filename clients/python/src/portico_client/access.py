"""Authenticated requests: signs in at the first one, and again when the credential expires."""

import copy
import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from portico_client.calls import JSON, Call, body
from portico_client.connection import Addresses
from portico_client.credentials import Credential, Login, OAuthTokens, SessionLogin
from portico_client.errors import APIError
from portico_client.flow import Alone, Flow, Request, Response, Tell, Whole
from portico_client.reading import decode, error_of, unexpected
from portico_client.retries import Retries, attempts

T = TypeVar("T")

MARGIN_SECONDS = 10
"""How long before its expiry a token is renewed, as a request takes a while to arrive."""

FORM = {"content-type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """The headers that authenticate requests, when they expire in Unix seconds, and the refresh
    token."""

    headers: Mapping[str, str] = field(repr=False)
    expires_at: float = math.inf
    refresh_token: str | None = field(default=None, repr=False)
    news: Tell | None = field(default=None, repr=False)
    """The listener to call with the new tokens, before the call that renewed them continues."""


NONE = Proof({}, expires_at=-math.inf)
"""Held before the first sign-in, and after a logout."""

Renew = Callable[[Proof], Flow[Proof]]
"""Gets a new proof, given the one that is no longer valid."""

_SESSION = re.compile(r"(?:^|[;,\s])(__(?:Host|Secure)-session=[!-+\--:<-~]+)(?![^;,\s])")

LONGEST_LIFE_SECONDS = 2**32
"""The longest lifetime that is accepted for a token: longer ones overflow dates."""


class Access:
    """Makes authenticated calls. One caller at a time renews the proof."""

    def __init__(
        self,
        addresses: Addresses,
        retries: Retries,
        clock: Callable[[], float],
        credential: str | Credential,
    ) -> None:
        """`credential` is an API key or another credential; `clock` returns Unix seconds."""
        self.addresses = addresses
        self._retries = retries
        self._clock = clock
        self._proof = NONE
        self._renew: Renew | None = None
        self._ending: Callable[[Proof], Request] | None = None
        self._refusal: APIError | None = None
        self._refused_code: str | None = None
        """The one-time code that was refused, if it was that: another one may be accepted."""
        if isinstance(credential, str):
            self._proof = Proof(bearer(credential))
        elif isinstance(credential, Login):
            self._renew = self._login(credential)
            self._ending = self._end_login
        elif isinstance(credential, SessionLogin):
            self._renew = self._session(credential)
            self._ending = self._end_session
        else:
            self._proof = oauth_proof(credential)
            if credential.refresh_token is not None:
                self._renew = self._oauth(credential)
        self._told = self._proof.news
        """The news that the listener has received."""
        self._telling = False

    def make(self, call: Call[T]) -> Flow[T]:
        """Makes a call. Raises `APIError` unless it succeeds, and `ConnectionFailed`."""
        request = Request(call.method, self.addresses.base + call.path, call.headers, call.content)
        return call.read((yield from self._success(request)))

    def open(self, path: str, headers: Mapping[str, str]) -> Flow[Response]:
        """Opens a stream at a path below the base address. The body of the response is still to be
        read. Raises as `make` does."""
        request = Request("GET", self.addresses.base + path, headers, streamed=True)
        return (yield from self._success(request))

    def end(self) -> Flow[None]:
        """Ends the login or session, if there is one. Raises ValueError if the client does not sign
        in itself."""
        if self._ending is None:
            raise ValueError("an API key or OAuth tokens cannot be logged out: revoke them")
        yield Alone(self._ended(self._ending))

    def _ended(self, ending: Callable[[Proof], Request]) -> Flow[None]:
        held = self._proof
        if held is not NONE:
            response = yield from attempts(ending(held), self._retries)
            if response.status not in (204, 401):  # 401: it had ended already
                raise error_of(response)
        self._proof = NONE

    def switch(self, api_key: str) -> None:
        """Uses another API key from now on."""
        self._proof = Proof(bearer(api_key))

    def _success(self, request: Request) -> Flow[Response]:
        response = yield from self._answer(request)
        if not 200 <= response.status < 300:
            raise error_of(response)
        return response

    def _answer(self, request: Request) -> Flow[Response]:
        """The response to an authenticated request. If it is 401, nothing was done, so the request
        is repeated once with a new proof."""
        proof, renew = self._proof, self._renew
        if renew is not None and proof.expires_at <= self._clock() + MARGIN_SECONDS:
            proof, renew = (yield Whole(self._current(renew, proof))), None
        elif proof.news is not self._told:
            yield Whole(self._tell())
        response = yield from attempts(_carrying(request, proof), self._retries)
        if response.status == 401 and renew is not None:
            proof = yield Whole(self._current(renew, proof))
            response = yield from attempts(_carrying(request, proof), self._retries)
        return response

    def _current(self, renew: Renew, refused: Proof) -> Flow[Proof]:
        """The successor of a proof, after its listener was called."""
        proof: Proof = yield Alone(self._renewed(renew, refused))
        yield from self._tell()
        return proof

    def _renewed(self, renew: Renew, refused: Proof) -> Flow[Proof]:
        """The successor of a proof. The first caller gets it; the others find it there.

        After a refusal it is not requested again: a password or refresh token does not become valid
        by repeating it. Neither does a one-time code, but another code may be accepted.
        """
        held = self._proof
        if held is refused or held is NONE:
            if self._refusal is not None and self._refused_code is None:
                raise copy.copy(self._refusal)
            try:
                self._proof = yield from renew(held)
            except APIError as refusal:
                if refusal.status in (400, 401):
                    self._refusal = refusal
                raise
        return self._proof

    def _tell(self) -> Flow[None]:
        """Calls the listener with the new tokens, unless another call is doing so. Calls do not
        wait for that one: a listener may make calls itself, or wait for other calls. If it fails,
        the next call calls it again: tokens that were not stored are lost with this process."""
        news = yield Alone(self._untold())
        if news is None:
            return
        try:
            yield news
            self._told = news
        finally:
            self._telling = False

    def _untold(self) -> Flow[Tell | None]:
        """The news to tell, for only one call at a time; otherwise None."""
        yield from ()
        news = self._proof.news
        if self._telling or news is self._told:
            return None
        self._telling = news is not None
        return news

    def _post(self, url: str, fields: Mapping[str, Any]) -> Flow[Response]:
        request = Request("POST", url, JSON, body(fields))
        return (yield from attempts(request, self._retries))

    def _sign_in(self, url: str, login: Login | SessionLogin) -> Flow[Response]:
        """The response to a sign-in. Sends no request for a code that was refused before."""
        code = None if login.otp is None else login.otp()
        if self._refusal is not None and self._refused_code == code:
            raise copy.copy(self._refusal)
        self._refusal = self._refused_code = None
        fields = {"email": login.email, "password": login.password}
        response = yield from self._post(url, fields if code is None else {**fields, "otp": code})
        if response.status >= 300:
            refusal = error_of(response)
            if any(fault.field == "otp" for fault in refusal.details):
                self._refused_code = code
                self._proof = NONE  # the old one is not valid either
            raise refusal
        return response

    def _login(self, login: Login) -> Renew:
        def renew(held: Proof) -> Flow[Proof]:
            auth = self.addresses.auth
            if held.refresh_token is not None:
                fields = {"refresh_token": held.refresh_token}
                response = yield from self._post(f"{auth}/refresh", fields)
                if response.status == 200:
                    return self._login_proof(response)
                if response.status != 401:
                    raise error_of(response)
            return self._login_proof((yield from self._sign_in(f"{auth}/login", login)))

        return renew

    def _end_login(self, held: Proof) -> Request:
        content = body({"refresh_token": held.refresh_token})
        return Request("POST", f"{self.addresses.auth}/logout", JSON, content)

    def _end_session(self, held: Proof) -> Request:
        return Request("DELETE", f"{self.addresses.base}/sessions", held.headers)

    def _login_proof(self, response: Response) -> Proof:
        tokens = tokens_of(response)
        ends = self._clock() + tokens["expires_in"]
        return Proof(bearer(tokens["access_token"]), ends, tokens.get("refresh_token"))

    def _session(self, login: SessionLogin) -> Renew:
        def renew(_held: Proof) -> Flow[Proof]:
            response = yield from self._sign_in(f"{self.addresses.base}/sessions", login)
            cookie = _SESSION.search(response.headers.get("set-cookie", ""))
            if cookie is None:
                raise unexpected(response)
            return Proof({"cookie": cookie[1]})

        return renew

    def _oauth(self, tokens: OAuthTokens) -> Renew:
        held = tokens

        def renew(_held: Proof) -> Flow[Proof]:
            nonlocal held
            fields = {"grant_type": "refresh_token", "refresh_token": held.refresh_token or ""}
            request = token_request(self.addresses.auth, held, fields)
            response = yield from attempts(request, self._retries)
            if response.status != 200:
                raise error_of(response)
            held = granted(response, held, self._clock())
            return oauth_proof(held)

        return renew


def bearer(token: str) -> dict[str, str]:
    """The header that carries a bearer credential."""
    if not _is_sendable(token):
        # The message does not show the token.
        raise ValueError("an API key or token must be visible ASCII characters")
    return {"authorization": f"Bearer {token}"}


def _is_sendable(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token and token != ""


def _carrying(request: Request, proof: Proof) -> Request:
    return dataclasses.replace(request, headers={**request.headers, **proof.headers})


def token_request(
    auth: str, held: OAuthTokens, fields: Mapping[str, str], endpoint: str = "token"
) -> Request:
    """A request to an endpoint of the authorization server. The client of `held` is authenticated
    in the body (RFC 6749 §2.3.1)."""
    client = {"client_id": held.client_id}
    if held.client_secret is not None:
        client["client_secret"] = held.client_secret
    return Request("POST", f"{auth}/{endpoint}", FORM, urlencode({**fields, **client}).encode())


def tokens_of(response: Response) -> Any:
    """The members of a token response, checked. Raises `UnexpectedAnswer`."""
    try:
        found = decode(response.content)
        known = isinstance(found["access_token"], str) and _is_sendable(found["access_token"])
        known = known and type(found["expires_in"]) is int
        known = known and abs(found["expires_in"]) < LONGEST_LIFE_SECONDS
        known = known and isinstance(found.get("refresh_token", ""), str)
        known = known and found["token_type"].lower() == "bearer"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unexpected(response) from error
    if not known:
        raise unexpected(response)
    return found


def granted(response: Response, held: OAuthTokens, now: float) -> OAuthTokens:
    """The tokens of a response of the token endpoint, for the client that `held` names."""
    found = tokens_of(response)
    return dataclasses.replace(
        held,
        access_token=found["access_token"],
        refresh_token=found.get("refresh_token", held.refresh_token),
        expires_at=datetime.fromtimestamp(now + found["expires_in"], UTC),
        scopes=frozenset(str(found["scope"]).split()) if "scope" in found else held.scopes,
    )


def oauth_proof(tokens: OAuthTokens) -> Proof:
    """The proof for requests with these tokens."""
    ends = math.inf if tokens.expires_at is None else tokens.expires_at.timestamp()
    news = None if tokens.on_change is None else Tell(tokens.on_change, tokens)
    return Proof(bearer(tokens.access_token), ends, news=news)
