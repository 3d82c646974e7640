"""The public keys of an issuer, fetched when they are needed and kept for a while.

Keys are fetched again once they are a quarter of an hour old, so that a withdrawn one ends, and
where a token names one that is not known: a new one. Never within ten seconds of the last time,
though, as anybody can name keys that do not exist. While the issuer does not answer, known keys
hold for an hour: it is asked without repetitions then, and nobody else waits for that. A time that
is still to come was noted while the clock was ahead: nobody can tell how long ago that is, so the
keys are fetched at once.
"""

import copy
import dataclasses
import math
from collections.abc import Callable

from portico_client.claims import Claims
from portico_client.errors import InvalidToken, PorticoError
from portico_client.flow import Alone, Flow, Request, Response
from portico_client.jwt import PublicKey, key_id, public_keys, verified
from portico_client.reading import decode, error_of, unexpected
from portico_client.retries import Retries, attempts

FRESH_SECONDS = 900
"""As long as the issuer says that its keys may be kept."""
STALE_SECONDS = 3600
PAUSE_SECONDS = 10


class Keys:
    """The keys with which one issuer signs."""

    def __init__(self, issuer: str, retries: Retries, clock: Callable[[], float]) -> None:
        """`issuer` is the authorization server's address; `clock` gives Unix seconds."""
        self._issuer = issuer
        self._retries = retries
        self._clock = clock
        self._keys: dict[str, PublicKey] = {}
        self._fetched_at = self._tried_at = -math.inf
        self._asked = False
        """Whether somebody is on the way to fetch them, perhaps not yet alone."""
        self._fetching = False
        self._failure: PorticoError | None = None

    def verify(self, token: str, audience: str) -> Flow[Claims]:
        """What a token for this audience says.

        Raises `InvalidToken` for one that must not be believed, `ConnectionFailed` and `APIError`
        where the keys cannot be had.
        """
        key = yield from self._key(key_id(token))
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
        """Fetches the keys, unless somebody just did."""
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
