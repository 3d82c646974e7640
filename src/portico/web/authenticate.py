"""Authentication: the credential of a request as a `Principal` (decisions §5)."""

from collections.abc import Awaitable, Mapping
from typing import Any

from portico.core.caller import READING_METHODS, Principal
from portico.core.errors import AuthenticationRequired
from portico.features.access.credentials import Credentials, other_resource
from portico.web.cookies import Origins, SecretCookie, are_unreadable
from portico.web.messages import Request


def bearer(headers: Any) -> str | None:
    """The token of the `Authorization` header, None without such a header. Raises
    `AuthenticationRequired` if it holds anything else."""
    sent = headers.get_all("authorization")
    if not sent:
        if "authorization" in headers:
            raise AuthenticationRequired(
                "The Authorization header must be ASCII.", error="invalid_request"
            )
        return None
    if len(sent) > 1:
        raise AuthenticationRequired("Send the Authorization header once.", error="invalid_request")
    scheme, _, token = sent[0].partition(" ")
    if scheme.lower() != "bearer":
        raise AuthenticationRequired("The Authorization header must be 'Bearer TOKEN'.")
    return str(token).lstrip(" ")  # one or more spaces may precede it (RFC 6750 §2.1)


class Authenticators:
    """Authenticates the requests of every environment."""

    def __init__(
        self, credentials: Mapping[str, Credentials], cookie: SecretCookie | None, origins: Origins
    ) -> None:
        """`credentials` are by the environment's name. Without a `cookie`, sessions do not
        count."""
        self._credentials = credentials
        self._cookie = cookie
        self._origins = origins

    def caller(
        self, request: Request, resource: str | None = None
    ) -> Principal | Awaitable[Principal]:
        """The caller, without awaiting if the credential is cached. An OAuth token must be for this
        `resource`; None: for the API. Raises `AuthenticationRequired`, and `PermissionDenied` for a
        cookie sent by another site's page."""
        token = bearer(request.headers)
        if request.form_token is not None:
            if token is not None:
                raise AuthenticationRequired(
                    "Send the token in the header or in the form, not in both.",
                    error="invalid_request",
                )
            token = request.form_token
        if token is None:
            return self._by_cookie(request, request.method)
        credentials = self._credentials[request.environment.name]
        known = credentials.known(token, request.now)
        if known is not None and known.works_at(resource):
            return known
        return _looked_up(credentials, token, request.now, resource)

    async def of_request(self, request: Request, method: str, resource: str) -> Principal:
        """The caller of a request to a service, which was made with this method. Raises as
        `caller`."""
        if "authorization" not in request.headers:
            return await self._by_cookie(request, method)
        caller = self.caller(request, resource)
        return caller if isinstance(caller, Principal) else await caller

    async def _by_cookie(self, request: Request, method: str) -> Principal:
        if self._cookie is None:
            raise AuthenticationRequired(
                "Authenticate with the header 'Authorization: Bearer TOKEN', where TOKEN is an API"
                " key or an access token."
            )
        cookie = self._cookie.read(request.headers)
        if cookie is None:
            if are_unreadable(request.headers):
                raise AuthenticationRequired(
                    "The cookies could not be read because one of them is not ASCII; remove it."
                )
            raise AuthenticationRequired(
                "Authenticate with the header 'Authorization: Bearer TOKEN', where TOKEN is an API"
                " key or an access token, or with a session cookie."
            )
        if method not in READING_METHODS:
            self._origins.check(request.headers)
        return await self._by_session(request, cookie)

    async def _by_session(self, request: Request, cookie: str) -> Principal:
        """The user of a session. Raises `AuthenticationRequired`."""
        credentials = self._credentials[request.environment.name]
        known = credentials.known_session(cookie, request.now)
        return known or await credentials.look_up_session(cookie, request.now)


async def _looked_up(
    credentials: Credentials, token: str, now: int, resource: str | None
) -> Principal:
    try:
        caller = await credentials.look_up(token, now)
    except AuthenticationRequired as refusal:
        raise AuthenticationRequired(refusal.message, error="invalid_token") from None
    if not caller.works_at(resource):
        raise other_resource(caller)
    return caller
