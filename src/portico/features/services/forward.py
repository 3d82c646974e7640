"""Forwarding: requests below a service's path are decided, then sent on to its upstream."""

import re
from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote, urlsplit

from portico.core.errors import AuthenticationRequired, PorticoError, Unreadable
from portico.core.services import Service, path_of
from portico.features.services.headers import Pairs, sent_back, sent_on
from portico.features.services.service import Decisions, needed_at
from portico.outbound.exchange import ServiceRequest, Unsent
from portico.outbound.forwarding import Forwarder
from portico.web import throttle
from portico.web.authenticate import Authenticators
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
        if "upgrade" in request.headers:
            raise NotForwarded("Connections cannot be upgraded here, such as to WebSocket.")
        if request.method == "TRACE":  # its answer would show who asks, with the token
            raise NotForwarded("TRACE is not forwarded.")
        if request.method != request.method.upper():  # else rules would decide on another method
            raise Unreadable("The method must be in capital letters.")
        path, target = self._target(request)
        added = await self._admitted(request, path)
        headers = [*sent_on(request.all_headers, self._session), *added, *_forwarded(request)]
        body, length = None, request.header("content-length")
        if chunked := request.is_of_unknown_length:
            headers.append(("transfer-encoding", "chunked"))
        elif length is not None:
            headers.append(("content-length", length))
        if chunked or length not in (None, "0"):
            body = request.stream_body(self._service.max_body, UPLOAD_SECONDS)
        sent = ServiceRequest(request.method, self._inside + target, headers, body, chunked)
        try:
            answered = await self._forwarder.send(self._origin, sent, self._service.timeout_seconds)
        except TimeoutError:
            raise GatewayTimeout(f"{self._service.name} did not answer in time.") from None
        except Unsent as error:
            raise BadGateway(f"{self._service.name} cannot be reached: {error.reason}.") from None
        back = sent_back(answered.headers, self._session)
        whole = answered.whole
        if whole is None:
            return Stream(answered.status, answered.chunks(), answered.close, back, finite=True)
        answered.close()
        return Reply(answered.status, whole, back)

    def _target(self, request: Request) -> tuple[str, str]:
        """The rest behind the service's path, encoded, and the same with the query. The HTTP server
        has decoded the path; what is decided on here is what is sent. Raises `Unreadable`."""
        rest = request.path[len(self._base) :] or "/"
        if _IS_PLAIN.fullmatch(rest) is None:
            if "\ufffd" in rest:  # the HTTP server's word for bytes that are no UTF-8
                raise Unreadable("The path must be UTF-8, percent-encoded.")
            rest = quote(rest, safe=_PLAIN)
        target = f"{rest}?{request.query_string}" if request.query_string else rest
        return path_of(target), target

    async def _admitted(self, request: Request, path: str) -> Pairs:
        """Authenticates, counts and permits; returns the headers that say who asks."""
        service, decisions = self._service, self._decisions
        needed = needed_at(service, request.method, path)
        if needed is None:
            await throttle.address(request)
            request.account_id = None
            return [("x-portico-environment", decisions.env.name)]
        try:
            caller = await self._authenticators.of_request(
                request, request.method, decisions.audience(service)
            )
        except AuthenticationRequired as refusal:
            refusal.scope = " ".join(needed.scopes) or None
            raise
        decision = await decisions.decide(
            caller,
            needed,
            method=request.method,
            address=request.origin.address,
            now=request.now,
            label=f"forward {service.name}",
        )
        request.caller, request.verdict = caller, decision.verdict
        if decision.error is not None:
            raise decision.error
        return await decisions.who_asks(caller, service, request.now)


def _forwarded(request: Request) -> Pairs:
    return [
        ("x-forwarded-for", request.origin.address),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", request.host),
        ("x-request-id", request.id),
    ]
