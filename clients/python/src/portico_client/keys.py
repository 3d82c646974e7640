"""The public keys of an issuer, fetched when they are needed and cached.

Keys are fetched again once they are 15 minutes old, so that a withdrawn key becomes invalid, and
when a token names an unknown key, which may be new. They are not fetched within ten seconds of the
last time, since anybody can name keys that do not exist. While the issuer does not respond, known
keys stay valid for an hour; then it is asked without retries, and other callers do not wait. If the
time of the last fetch lies in the future, the clock was ahead and the age of the keys is unknown,
so they are fetched immediately.
"""

import copy
import dataclasses
import math
from collections.abc import Callable

from portico_client.credentials import Claims
from portico_client.errors import InvalidToken, PorticoError
from portico_client.flow import Alone, Flow, Request, Response
from portico_client.jwt import PublicKey, key_id, public_keys, verified
from portico_client.reading import decode, error_of, unexpected
from portico_client.retries import Retries, attempts

FRESH_SECONDS = 900
"""How long the issuer allows its keys to be cached."""
STALE_SECONDS = 3600
PAUSE_SECONDS = 10


class Keys:
    """The signing keys of one issuer."""

    def __init__(self, issuer: str, retries: Retries, clock: Callable[[], float]) -> None:
        """`issuer` is the authorization server's address; `clock` returns Unix seconds."""
        self._issuer = issuer
        self._retries = retries
        self._clock = clock
        self._keys: dict[str, PublicKey] = {}
        self._fetched_at = self._tried_at = -math.inf
        self._asked = False
        """Whether a caller is about to fetch them, perhaps still waiting for its turn."""
        self._fetching = False
        self._failure: PorticoError | None = None

    def verify(self, token: str, audience: str, kind: str | None = None) -> Flow[Claims]:
        """The claims of a token for this audience, of this `typ` if one is given.

        Raises `InvalidToken` if it must not be trusted, `ConnectionFailed` or `APIError` if the
        keys cannot be fetched.
        """
        key = yield from self._key(key_id(token, kind))
        return verified(token, key, issuer=self._issuer, audience=audience, now=self._clock())

    def _key(self, kid: str) -> Flow[PublicKey]:
        passes = (self._asked or self._fetching) and self._knows(kid, STALE_SECONDS)
        if not passes and not self._knows(kid, FRESH_SECONDS):
            self._asked = True
            try:
                yield Alone(self._fetched(kid))
            except PorticoError:
                if not self._knows(kid, STALE_SECONDS):
                    raise
            finally:
                self._asked = False
        key = self._keys.get(kid)
        if key is None:
            raise InvalidToken("it is signed with a key that the issuer does not have")
        return key

    def _knows(self, kid: str, seconds: float) -> bool:
        return kid in self._keys and 0 <= self._clock() - self._fetched_at <= seconds

    def _fetched(self, kid: str) -> Flow[None]:
        """Fetches the keys, unless another caller just did."""
        if self._knows(kid, FRESH_SECONDS):
            return
        if 0 <= self._clock() - self._tried_at < PAUSE_SECONDS:
            if self._failure is not None:
                raise copy.copy(self._failure)
            return
        holds = self._knows(kid, STALE_SECONDS)
        self._fetching = True
        try:
            yield from self._fetch(
                dataclasses.replace(self._retries, times=0) if holds else self._retries
            )
        except PorticoError as failure:
            self._tried_at, self._failure = self._clock(), failure
            raise
        else:
            self._tried_at, self._failure = self._clock(), None
        finally:
            self._fetching = False

    def _fetch(self, retries: Retries) -> Flow[None]:
        request = Request("GET", f"{self._issuer}/.well-known/jwks.json")
        response: Response = yield from attempts(request, retries)
        if response.status != 200:
            raise error_of(response)
        try:
            self._keys = public_keys(decode(response.content))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise unexpected(response) from error
        self._fetched_at = self._clock()
