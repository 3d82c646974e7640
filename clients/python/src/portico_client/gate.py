"""A gate in front of a service of one's own: Portico decides which requests may pass.

Needs `portico-client[jwt]`. A request that Portico forwarded, or let a proxy pass, carries
`X-Portico-Identity`. The gate trusts that token if the issuer signed it for this service, and does
not ask again. For all others it asks `POST /verify`, which counts the request against its account.
"""

import ipaddress
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, Unpack
from urllib.parse import quote, urlsplit

from portico_client.access import Access
from portico_client.calls import verify
from portico_client.connection import addresses
from portico_client.credentials import Claims
from portico_client.drivers import AsyncClosing, AsyncDriver, AsyncOptions
from portico_client.errors import (
    APIError,
    ConnectionFailed,
    Fault,
    InvalidToken,
    PorticoError,
    UnexpectedAnswer,
    ValidationError,
)
from portico_client.keys import Keys
from portico_client.models import Verified, VerifiedLimit

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = list[tuple[str, str]]

IDENTITY_TYPE = "portico-identity+jwt"
CALLER = "portico.caller"
"""Where an ASGI scope has the `Caller`."""

STATUS = {"AUTHENTICATION_REQUIRED": 401, "PERMISSION_DENIED": 403, "RATE_LIMITED": 429}
NO_CREDENTIAL = (
    "Authenticate with the header 'Authorization: Bearer TOKEN', where TOKEN is an API key or an"
    " access token."
)


class Asked(TypedDict, total=False):
    """What to ask beside whose credential it is. `scope` is one that it needs; `method` and `path`
    have the service's rules decide; `address` is the caller's, for keys that are limited to
    networks; `cost` and `limit` as in the rules."""

    scope: str
    method: str
    path: str
    address: str
    cost: int
    limit: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request. `scopes` are those that both the credential and the user's role have;
    `credential` is its kind and id, such as `api_key:17`."""

    user_id: int
    role: str
    plan: str
    scopes: frozenset[str]
    credential: str


class Refusal(PorticoError):
    """A request that may not pass. As an ASGI application it gives the answer that Portico would
    have given."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.body = _json({"error": {"code": code, "message": message, "details": []}})
        self.headers: Headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(self.body))),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            *headers,
        ]

    def challenge(self, scope: str | None, metadata: str | None) -> None:
        """Adds to the challenge, if there is one, what a client must have (RFC 6750 §3, RFC 9728
        §5.1)."""
        for place, (name, value) in enumerate(self.headers):
            if name == "www-authenticate":
                more = {"scope": scope, "resource_metadata": metadata}
                added = [
                    f'{key}="{one}"' for key, one in more.items() if one and f"{key}=" not in value
                ]
                parts = [value.removeprefix("Bearer").strip(), *added]
                told = f"Bearer {', '.join(filter(None, parts))}".strip()
                self.headers[place] = (name, told)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request, or closes the WebSocket before it is open."""
        kind = "http.response"
        if scope["type"] == "websocket":
            kind = "websocket.http.response"
            if kind not in scope.get("extensions", {}):
                await receive()
                await send({"type": "websocket.close", "code": 1008})
                return
        headers = _encoded(self.headers)
        await send({"type": f"{kind}.start", "status": self.status, "headers": headers})
        body = b"" if scope.get("method") == "HEAD" else self.body
        await send({"type": f"{kind}.body", "body": body})


class Gate(AsyncClosing):
    """Decides about the requests to one service. Tasks of one event loop may share it.

    As ASGI middleware, `app = gate.middleware(app)`, the rules that `portico.toml` declares for the
    service decide. In FastAPI, `Depends(gate.require("read:invoices"))` asks for one scope.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        service: str,
        *,
        audience: str | None = None,
        path: str | None = None,
        auth_url: str | None = None,
        **options: Unpack[AsyncOptions],
    ) -> None:
        """`base_url` is the API's address, `key` an API key with the scope `verify`, `service` the
        name that `portico.toml` gives the service.

        `audience` is the service's. Default: the base with `/` and the service's name, as it is
        where `portico.toml` does not name one. `path` is where Portico forwards to the service, if
        it does: refusals then name the service's metadata, as Portico's do. `auth_url` as in
        `AsyncClient`. Raises ValueError for an invalid argument.
        """
        where = addresses(base_url, auth_url)
        self._driver = AsyncDriver(options)
        self._access = Access(where, self._driver.retries, self._driver.clock, key)
        self._keys = Keys(where.auth, self._driver.retries, self._driver.clock)
        self._service = service
        self._audience = f"{where.base}/{service}" if audience is None else audience
        self._metadata = None if path is None else _metadata(f"{where.base}{path}")

    async def close(self) -> None:
        """Closes the connections."""
        await self._driver.close()

    async def verify(self, credential: str, **asked: Unpack[Asked]) -> Verified:
        """Asks whether a credential is valid at this service, and counts the request against its
        account. Raises `PorticoError` if there is no verdict."""
        check = {"credential": credential, "service": self._service, **asked}
        return await self._driver.run(self._access.make(verify(check)))

    def middleware(self, app: App) -> App:
        """An ASGI application that lets those requests pass to `app` that the service's rules
        admit. The scope has the `Caller` as `portico.caller`, None where a rule is public."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] not in ("http", "websocket"):
                return await app(scope, receive, send)
            try:
                caller, headers = await self._decide(scope, {"path": _path(scope)})
            except Refusal as refusal:
                refusal.challenge(None, self._metadata)
                return await refusal(scope, receive, send)
            return await app({**scope, CALLER: caller}, receive, _adding(send, headers))

        return guarded

    def require(self, scope: str | None = None) -> Callable[..., Awaitable[Caller]]:
        """A dependency for FastAPI that returns the `Caller`, who has this scope; any valid
        credential will do without one. Behind `middleware` it asks and counts nothing more."""
        from fastapi.requests import HTTPConnection  # an extra; nothing else here needs it

        async def required(connection: HTTPConnection) -> Caller:
            asgi = connection.scope
            try:
                caller = asgi.get(CALLER)
                if caller is None:
                    caller, _ = await self._decide(asgi, {"scope": scope} if scope else {})
                if caller is None:
                    raise _refused("AUTHENTICATION_REQUIRED", NO_CREDENTIAL, "Bearer")
                if scope is not None and scope not in caller.scopes:
                    raise _lacking(scope)
            except Refusal as refusal:
                refusal.challenge(scope, self._metadata)
                # FastAPI's own handlers answer `{"detail": …}`.
                asgi["starlette.exception_handlers"][0].setdefault(Refusal, _answer)
                raise
            return caller

        return required

    async def _decide(self, asgi: Scope, asked: Asked) -> tuple[Caller | None, Headers]:
        """Who asks, and the limit's headers. Raises `Refusal`."""
        try:
            return await self._decided(asgi, asked)
        except (ConnectionFailed, UnexpectedAnswer) as error:
            raise _unavailable() from error
        except APIError as error:
            if error.status == 429 or error.status >= 500:
                raise _unavailable() from error
            raise  # such as for a key that may not ask: a fault of the gate, not of the caller

    async def _decided(self, asgi: Scope, asked: Asked) -> tuple[Caller | None, Headers]:
        missing = NO_CREDENTIAL
        identities = _values(asgi, b"x-portico-identity")
        if len(identities) == 1:
            try:
                claims = await self._driver.run(
                    self._keys.verify(identities[0], self._audience, IDENTITY_TYPE)
                )
                return _of_claims(claims, self._audience), []
            except InvalidToken as error:
                missing = f"X-Portico-Identity is not trusted: {error}."
        credential = _bearer(asgi)
        asked = {"method": asgi.get("method", "GET"), **asked}
        if address := _address(asgi):
            asked["address"] = address
        try:
            verified = await self.verify(credential, **asked)
        except ValidationError as error:
            raise _unreadable(error) from error
        headers = _limit_headers(verified.limit)
        if verified.valid:
            return _of_verdict(verified), headers
        if not credential:
            raise _refused(verified.code, missing, "Bearer", headers)
        challenge = ""
        if verified.code == "AUTHENTICATION_REQUIRED":
            challenge = 'Bearer error="invalid_token"'
        elif verified.code == "PERMISSION_DENIED" and verified.credential is not None:
            scope = asked.get("scope")
            if scope is not None and scope not in verified.credential.scopes:
                challenge = _insufficient(scope)
        elif verified.code == "RATE_LIMITED" and verified.limit is not None:
            headers.append(("retry-after", str(verified.limit.retry_after)))
        raise _refused(verified.code, verified.message, challenge, headers)


def _metadata(resource: str) -> str:
    """Where the metadata of a resource is (RFC 9728 §3.1)."""
    at = urlsplit(resource)
    return f"{at.scheme}://{at.netloc}/.well-known/oauth-protected-resource{at.path}"


def _of_claims(claims: Claims, audience: str) -> Caller:
    """Raises `InvalidToken`."""
    told = claims.all
    if told["aud"] != audience:
        raise InvalidToken("it is for another audience too")
    names = ("role", "plan", "scope", "credential")
    if not all(isinstance(told.get(name), str) for name in names) or not claims.subject.isdigit():
        raise InvalidToken("it does not say who asks")
    return Caller(
        claims.user_id,
        told["role"],
        told["plan"],
        frozenset(told["scope"].split()),
        told["credential"],
    )


def _of_verdict(verified: Verified) -> Caller | None:
    user, credential = verified.user, verified.credential
    if user is None or credential is None:
        return None  # a public rule
    return Caller(
        user.id,
        user.role,
        user.plan,
        frozenset(credential.scopes),
        f"{credential.kind}:{credential.id}",
    )


def _values(asgi: Scope, name: bytes) -> list[str]:
    """The values of a request's header, by its name in lower case."""
    return [value.decode("latin-1") for one, value in asgi["headers"] if one == name]


def _bearer(asgi: Scope) -> str:
    """The credential, empty without one. Raises `Refusal` for a header that is anything else."""
    sent = _values(asgi, b"authorization")
    if not sent:
        return ""
    scheme, _, token = sent[0].partition(" ")
    if len(sent) > 1:
        message, challenge = "Send the Authorization header once.", 'Bearer error="invalid_request"'
    elif scheme.lower() == "bearer" and token.strip():
        return token.strip()
    else:
        message, challenge = "The Authorization header must be 'Bearer TOKEN'.", "Bearer"
    raise _refused("AUTHENTICATION_REQUIRED", message, challenge)


def _address(asgi: Scope) -> str | None:
    """The caller's address, None where the server does not know one, such as on a socket file."""
    client = asgi.get("client")
    try:
        return str(ipaddress.ip_address(client[0])) if client else None
    except ValueError:
        return None


def _path(asgi: Scope) -> str:
    """The path at the service as it was sent, without the prefix that a proxy took off."""
    raw = asgi.get("raw_path")
    path = raw.decode("latin-1") if raw is not None else quote(asgi["path"])
    root = quote(asgi.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _unreadable(error: ValidationError) -> Exception:
    """The refusal of what the caller sent, or the error itself if the gate's own values are
    wrong, such as a service that is not declared."""
    fault = error.details[0] if error.details else Fault("", "")
    if fault.field == "credential":
        return _refused("AUTHENTICATION_REQUIRED", "The credential is too long.", "Bearer")
    if fault.field in ("path", "method"):
        return Refusal(400, error.code, fault.message)
    return error


def _unavailable() -> Refusal:
    message = "Credentials cannot be verified at the moment."
    return Refusal(503, "SERVICE_UNAVAILABLE", message, [("retry-after", "1")])


def _lacking(scope: str) -> Refusal:
    message = f"This needs the scope {scope}."
    return _refused("PERMISSION_DENIED", message, _insufficient(scope))


def _insufficient(scope: str) -> str:
    return f'Bearer error="insufficient_scope", scope="{scope}"'


def _refused(code: str, message: str, challenge: str, headers: Headers | None = None) -> Refusal:
    found = [*(headers or ()), *([("www-authenticate", challenge)] if challenge else ())]
    return Refusal(STATUS.get(code, 403), code, message, found)


def _limit_headers(limit: VerifiedLimit | None) -> Headers:
    if limit is None:
        return []
    names: tuple[Literal["limit", "remaining", "reset"], ...] = ("limit", "remaining", "reset")
    return [(f"x-ratelimit-{name}", str(getattr(limit, name))) for name in names]


def _adding(send: Send, headers: Headers) -> Send:
    """Sends the response with more headers."""
    more = _encoded(headers)

    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return adding if more else send


async def _answer(_connection: Any, refusal: Refusal) -> Refusal:
    return refusal


def _encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
