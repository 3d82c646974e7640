"""Forwarding: requests below a service's path are decided, then sent on to its upstream."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import ClassVar
from urllib.parse import quote

from portico.core.errors import PorticoError, Unreadable
from portico.core.services import Service, checked_target
from portico.features.services.headers import Pairs, of_caller, sent_back, sent_on
from portico.features.services.service import Decisions, needed_at
from portico.outbound.exchange import Unsent
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
    """Upgrades of the connection are not forwarded."""

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
        self._upstream = upstream
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
        if request.method != request.method.upper():  # else rules would decide on another method
            raise Unreadable("The method must be in capital letters.")
        target = self._target(request)
        added = await self._admitted(request, target.partition("?")[0])
        headers = [*sent_on(request.all_headers, self._session), *added, *_forwarded(request)]
        await self._forwarder.load()  # the first time; it must not take the service's time
        limit = asyncio.timeout(self._service.timeout_seconds)
        faults: list[PorticoError] = []
        try:
            async with limit:  # left once the head has arrived: the body has no limit
                body = self._body(request, limit, faults)
                url = self._upstream + target
                answered = await self._forwarder.send(request.method, url, headers, body)
        except TimeoutError:
            raise GatewayTimeout(f"{self._service.name} did not answer in time.") from None
        except Unsent as error:
            if faults:  # the client's body is at fault, not the service
                raise faults[0] from None
            raise BadGateway(f"{self._service.name} cannot be reached: {error.reason}.") from None
        back = sent_back(answered.headers, self._session)
        return Stream(answered.status, answered.chunks(), answered.close, back, finite=True)

    def _target(self, request: Request) -> str:
        """The rest behind the service's path, encoded, with the query. The HTTP server has decoded
        the path; what is decided on here is what is sent. Raises `Unreadable`."""
        if "\ufffd" in request.path:  # the HTTP server's word for bytes that are no UTF-8
            raise Unreadable("The path must be UTF-8, percent-encoded.")
        rest = quote(request.path[len(self._base) :] or "/", safe=_PLAIN)
        target = f"{rest}?{request.query_string}" if request.query_string else rest
        checked_target(target)
        return target

    async def _admitted(self, request: Request, path: str) -> Pairs:
        """Authenticates, counts and permits; returns the headers that say who asks."""
        service, decisions = self._service, self._decisions
        needed = needed_at(service, request.method, path)
        if needed is None:
            await throttle.address(request)
            request.account_id = None
            return [("x-portico-environment", decisions.env.name)]
        caller = await self._authenticators.of_request(
            request, request.method, decisions.audience(service)
        )
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
        identity = await decisions.identity(caller, service, request.now)
        return of_caller(caller, decisions.env.name, identity)

    def _body(
        self, request: Request, limit: asyncio.Timeout, faults: list[PorticoError]
    ) -> AsyncGenerator[bytes, None] | None:
        """The request's body as it arrives; the service's time begins anew with each part."""
        length = request.header("content-length")
        if "transfer-encoding" not in request.headers and length in (None, "0"):
            return None
        return self._parts(request, limit, faults)

    async def _parts(
        self, request: Request, limit: asyncio.Timeout, faults: list[PorticoError]
    ) -> AsyncGenerator[bytes, None]:
        now = asyncio.get_running_loop().time
        try:
            async for part in request.stream_body(self._service.max_body, UPLOAD_SECONDS):
                with suppress(RuntimeError):  # the head has arrived before the whole body
                    limit.reschedule(now() + self._service.timeout_seconds)
                yield part
        except PorticoError as error:
            faults.append(error)
            raise


def _forwarded(request: Request) -> Pairs:
    return [
        ("x-forwarded-for", request.origin.address),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", request.host),
        ("x-request-id", request.id),
    ]
