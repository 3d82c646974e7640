"""Who calls: the credential of a request as a `Principal` (decisions §5)."""

from collections.abc import Mapping

from portico.domain.caller import Principal
from portico.domain.errors import AuthenticationRequired
from portico.http.messages import Request
from portico.services.api_keys import KeyRing


class Authenticators:
    """Every environment's ways to authenticate a request."""

    def __init__(self, key_rings: Mapping[str, KeyRing]) -> None:
        """`key_rings` by the environment's name."""
        self._key_rings = key_rings

    async def caller(self, request: Request) -> Principal:
        """Whoever makes this request. Raises `AuthenticationRequired`."""
        header = request.headers.get("authorization")
        if header is None:
            raise AuthenticationRequired(
                "Authenticate with the header 'Authorization: Bearer YOUR_API_KEY'."
            )
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise AuthenticationRequired("The Authorization header must be 'Bearer TOKEN'.")
        ring = self._key_rings[request.environment.name]
        return ring.known(token, request.now) or await ring.look_up(token, request.now)
