"""Forwarding: requests below a service's path are decided, then sent on to its upstream.

A client's own `X-Portico-*` and forwarding headers never pass, in any spelling: some servers read
`X_Portico_User` as `X-Portico-User`.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import ClassVar
from urllib.parse import quote, urlsplit

from portico.core.errors import PorticoError, Unreadable
from portico.core.services import Service, path_of
from portico.features.services.service import Decisions, Pairs
from portico.outbound.exchange import Forwarder, ServiceRequest, Unsent
from portico.web import throttle
from portico.web.authenticate import Authenticators
from portico.web.cookies import DEVICE, PROVIDER, SECOND_STEP
from portico.web.envelope import error_body
from portico.web.messages import JSON, Reply, Request, Stream
from portico.web.problems import problem
from portico.web.routing import Access, Endpoint, PathMatch

UPLOAD_SECONDS = 24 * 3600.0
"""The longest upload. Each part of it must arrive in time, too."""

_PLAIN = "/:@!$&'()*+,;=~-._"
"""What a path may have beside letters and digits (RFC 3986 §3.3)."""
_IS_PLAIN = re.compile(rf"[A-Za-z0-9{re.escape(_PLAIN)}]+")


class UpstreamError(PorticoError):
    """The service behind Portico did not answer as it should."""

    status: ClassVar[int]


class BadGateway(UpstreamError):
    """The service cannot be reached, or does not speak HTTP."""

    code = "BAD_GATEWAY"
    status = 502


class GatewayTimeout(UpstreamError):
    """The service did not answer in time."""

    code = "GATEWAY_TIMEOUT"
    status = 504


class NotForwarded(UpstreamError):
    """Upgrades of the connection and TRACE are not forwarded."""

    code = "NOT_IMPLEMENTED"
    status = 501


class ForwardResponder:
    """Forwards the requests below one service's path, in one environment."""

    def __init__(
        self,
        service: Service,
        upstream: str,
        base: str,
        decisions: Decisions,
        authenticators: Authenticators,
        forwarder: Forwarder,
        session: str,
    ) -> None:
        """`base` is the path of the service's address, such as `/v1/invoices`; `session` is the
        name of the session cookie."""
        self._service = service
        parts = urlsplit(upstream)
        self._origin, self._inside = f"{parts.scheme}://{parts.netloc}", parts.path
        self._base = base
        self._decisions = decisions
        self._authenticators = authenticators
        self._forwarder = forwarder
        self._session = session
        self._label = f"forward {service.name}"

    def serves(self, _access: str | Access) -> bool:
        """No route of our own."""
        return False

    def problem(self, request: Request, error: PorticoError) -> Reply:
        """The error body of specification §7."""
        if isinstance(error, UpstreamError):
            body = error_body(error.code, error.message, ())
            pairs = [("content-type", JSON), ("cache-control", "no-store")]
            return Reply(error.status, body, pairs)
        return problem(error, request.environment.addresses.base + (self._service.path or ""))

    async def answer(
        self, request: Request, _match: PathMatch, _endpoint: Endpoint | None, _ids: Sequence[str]
    ) -> Reply:
        """Decides, then forwards. Raises `PorticoError`."""
        request.label = self._label
        try:
            path, target = self._target(request)
            added = await self._decisions.admit(
                request, self._authenticators, self._service, request.method, path
            )
        except PorticoError as error:
            await throttle.refusal(request, error)
            raise
        if added is None:
            added = [("x-portico-environment", request.environment.name)]
        headers = [*_sent_on(request.all_headers, self._session), *added, *_forwarded(request)]
        body, length = None, request.header("content-length")
        if chunked := request.is_of_unknown_length:
            headers.append(("transfer-encoding", "chunked"))
        elif length is not None:
            headers.append(("content-length", length))
        if chunked or length not in (None, "0"):
            body = request.stream_body(self._service.max_body, UPLOAD_SECONDS)
        sent = ServiceRequest(request.method, self._inside + target, headers, body, chunked)
        try:
            client = await self._forwarder.get()
            answered = await client.send(self._origin, sent, self._service.timeout_seconds)
        except TimeoutError:
            raise GatewayTimeout(f"{self._service.name} did not answer in time.") from None
        except Unsent as error:
            raise BadGateway(f"{self._service.name} cannot be reached: {error.reason}.") from None
        back = _sent_back(answered.headers, self._session)
        whole = answered.whole
        if whole is None:
            return Stream(answered.status, answered.chunks(), answered.close, back, finite=True)
        answered.close()
        return Reply(answered.status, whole, back)

    def _target(self, request: Request) -> tuple[str, str]:
        """The rest behind the service's path, encoded, and the same with the query. The HTTP server
        has decoded the path; what is decided on here is what is sent. Raises `NotForwarded` and
        `Unreadable`."""
        if "upgrade" in request.headers:
            raise NotForwarded("Connections cannot be upgraded here, such as to WebSocket.")
        if request.method == "TRACE":  # its answer would show who asks, with the token
            raise NotForwarded("TRACE is not forwarded.")
        if request.method != request.method.upper():  # else rules would decide on another method
            raise Unreadable("The method must be in capital letters.")
        rest = request.path[len(self._base) :] or "/"
        if _IS_PLAIN.fullmatch(rest) is None:
            if "\ufffd" in rest:  # the HTTP server's word for bytes that are no UTF-8
                raise Unreadable("The path must be UTF-8, percent-encoded.")
            rest = quote(rest, safe=_PLAIN)
        target = f"{rest}?{request.query_string}" if request.query_string else rest
        return path_of(target), target


def _forwarded(request: Request) -> Pairs:
    return [
        ("x-forwarded-for", request.origin.address),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", request.host),
        ("x-request-id", request.id),
    ]


_HOPS = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"),
    }
)
"""Headers about one connection (RFC 9110 §7.6.1)."""

_TAKEN_OFF = frozenset(
    {
        *("authorization", "content-length", "host", "x-request-id"),
        # Where a request comes from: some servers believe any of these.
        *("forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip"),
        # Another path or method than that which was decided on.
        *("x-rewrite-url", "x-http-method", "x-http-method-override", "x-method-override"),
    }
)
_OURS = frozenset({"x-request-id", "x-content-type-options", "strict-transport-security"})


_NAMES = 256
"""How many names of headers to remember: clients and services use the same few."""


def _spelling(name: str) -> str:
    """A header's name as the most lenient server reads it."""
    return name.lower().replace("_", "-")


@lru_cache(_NAMES)
def _name_sent_on(name: str) -> str | None:
    """The name under which a client's header is sent on; None if it is taken off."""
    spelled = _spelling(name)
    if spelled in _HOPS or spelled in _TAKEN_OFF:
        return None
    if spelled.startswith(("x-portico-", "x-forwarded-", "x-original-")):
        return None
    return name.lower()


@lru_cache(_NAMES)
def _name_sent_back(name: bytes) -> str | None:
    """The name under which a service's header is sent back; None if it is taken off."""
    lower = name.decode("latin-1").lower()
    if not lower.isascii() or lower in _HOPS or lower in _OURS:
        return None
    if lower.startswith(("x-ratelimit-", "x-portico-", "access-control-")):
        return None
    return lower


def _sent_on(headers: Iterable[tuple[str, str]], session: str) -> Pairs:
    """The client's headers as the service gets them. `session` is the name of the session
    cookie."""
    named: frozenset[str] = frozenset()
    kept: Pairs = []
    for name, value in headers:
        sent = _name_sent_on(name)
        if sent is None:
            if name.lower() == "connection":
                named |= _named_by(value)
        elif value.isascii():
            if sent == "cookie" and not (value := _without(value, session)):
                continue
            kept.append((sent, value))
    if named:
        return [(name, value) for name, value in kept if _spelling(name) not in named]
    return kept


def _sent_back(headers: Iterable[tuple[bytes, bytes]], session: str) -> Pairs:
    """The service's headers as the client gets them."""
    named: frozenset[str] = frozenset()
    kept: Pairs = []
    for raw_name, raw in headers:
        name, value = _name_sent_back(raw_name), raw.decode("latin-1")
        if name is None:
            if (hop := raw_name.lower()) == b"connection":
                named |= _named_by(value)
            elif hop == b"transfer-encoding":
                named |= {"content-length"}
        elif value.isascii() and not (
            name == "set-cookie" and value.startswith(_our_cookies(session))
        ):
            kept.append((name, value))
    if named:
        return [(name, value) for name, value in kept if _spelling(name) not in named]
    return kept


def _named_by(connection: str) -> frozenset[str]:
    """The names in a `Connection` header, whose headers are about that connection too."""
    return frozenset(_spelling(one.strip()) for one in connection.split(","))


def _our_cookies(session: str) -> tuple[str, ...]:
    return tuple(f"{name}=" for name in (session, SECOND_STEP.name, DEVICE.name, PROVIDER.name))


def _without(cookies: str, session: str) -> str:
    """Cookies without Portico's own."""
    ours = _our_cookies(session)
    pairs = (pair.strip() for pair in cookies.split(";"))
    return "; ".join(pair for pair in pairs if pair and not pair.startswith(ours))
