"""The steps of every request, in this order.

request id → error boundary → route, from the table for HTTPS or for plain HTTP → CORS → responder
(`api_responder`, `oauth_responder`, `open_responder`, `web/pages/responder.py`) → encode → measure
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Collection, Sequence
from typing import Any

from portico.core.errors import DatabaseUnusable, Internal, PorticoError, Unavailable
from portico.core.secrets import Random
from portico.core.times import Clock
from portico.environment import Environment
from portico.web.cors import is_preflight, without_lookups
from portico.web.measure import Measure
from portico.web.messages import Reply, Request, Scope, Stream, TypedRequest
from portico.web.peers import UNSECURED, Peers, limited_as
from portico.web.problems import failed, problem
from portico.web.router import Router
from portico.web.routing import Endpoint, Responder
from portico.web.streams import Streams

log = logging.getLogger(__name__)


class Pipeline:
    """An RSGI application that takes a request through every step and sends the reply."""

    def __init__(
        self,
        secure: Router,
        plain: Router,
        peers: Peers,
        measure: Measure,
        *,
        clock: Clock,
        random: Random,
        read_around: Collection[str] = (),
    ) -> None:
        """`secure` is the routing table for requests over HTTPS, `plain` for all others. `random`
        makes the part of request ids that is unique to this process. `read_around` are the headers
        that are read around this application, such as `traceparent`."""
        self._secure = secure
        self._plain = plain
        self._peers = peers
        self._measure = measure
        self._clock = clock
        self._read_around = read_around
        self._id_prefix = f"req_{random(6).hex()}"
        self._count = itertools.count(1)
        self._quiet: asyncio.Event | None = None
        self.is_behind = False
        """Whether migrations are pending: requests for an environment then get 503."""
        self.under_way = 0
        """How many requests have no answer yet. Open streams are in `streams` and do not count."""
        self.streams = Streams()

    async def answered(self) -> None:
        """Waits until no request is under way."""
        if self.under_way:
            self._quiet = asyncio.Event()
            await self._quiet.wait()

    async def __rsgi__(
        self, scope: Scope, proto: Any, last: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Answers one request (the entry point of RSGI, see `Application`)."""
        started = time.perf_counter()
        request: Request = TypedRequest(scope, proto, f"{self._id_prefix}{next(self._count):08x}")
        endpoint: Endpoint | None = None
        responder: Responder | None = None
        extra_headers: Sequence[tuple[str, str]] = ()
        security: Sequence[tuple[str, str]] = UNSECURED
        request.now = self._clock()
        self.under_way += 1
        try:
            try:
                request.origin = origin = self._peers.origin(scope.client, scope)
                security = origin.headers
                request.address = limited_as(origin.address)
                router = self._secure if origin.secure else self._plain
                match, id_texts = router.find(request.path, scope)
                responder = match.responder
                request.environment = match.environment
                extra_headers = match.extra_headers
                cors = without_lookups(match.cors) if self.is_behind else match.cors
                if cors is not None and is_preflight(request):
                    reply = await cors.preflight(
                        request, match.methods, match.taken_headers, self._read_around
                    )
                else:
                    if cors is not None:
                        extra_headers = (*extra_headers, *await cors.headers(request))
                    if self.is_behind:
                        _require_none(match.environment)
                    endpoint = match.methods.get(request.method)
                    reply = await responder.answer(request, match, endpoint, id_texts)
            except Exception as error:  # noqa: BLE001 - the one error boundary
                reply = _refusal(request, responder, error)
            headers = reply.headers
            headers += *security, ("x-request-id", request.id), *extra_headers
            verdict = request.verdict
            if verdict is not None:
                headers += (
                    ("x-ratelimit-limit", str(verdict.limit)),
                    ("x-ratelimit-remaining", str(verdict.remaining)),
                    ("x-ratelimit-reset", str(verdict.reset)),
                )
            if last and scope.http_version != "2":
                headers += last
            if isinstance(reply, Stream):
                self.streams.begin(request, reply, scope, proto)
            else:
                body = reply.body
                if body and request.method == "HEAD" and scope.http_version == "2":
                    # The HTTP server itself omits it only over HTTP/1.1.
                    headers.append(("content-length", str(len(body))))
                    body = b""
                proto.response_bytes(reply.status, headers, body)
            self._measure.record(request, endpoint, reply.status, time.perf_counter() - started)
        finally:
            self.under_way -= 1
            if self._quiet is not None and not self.under_way:
                self._quiet.set()
        if reply.status >= 300:  # on success the body was read, or there was none
            await request.discard_body()


def _require_none(environment: Environment | None) -> None:
    """Raises `Unavailable` for a request to an environment while its database is not migrated."""
    if environment is not None:
        raise Unavailable("The database waits for migrations.", retry_after=5)


def _refusal(request: Request, responder: Responder | None, error: Exception) -> Reply:
    """The reply to an error; a bare 500 if making it fails too."""
    try:
        if not isinstance(error, PorticoError):
            log.error("unexpected error", exc_info=error, extra={"request_id": request.id})
            error = Internal("An unexpected error occurred; the server's log has its request id.")
        elif isinstance(error, DatabaseUnusable):
            log.error("%s", error, extra={"request_id": request.id})
        request.error_code = error.code
        return responder.problem(request, error) if responder else problem(error)
    except Exception:
        log.exception("no error response could be made", extra={"request_id": request.id})
        return failed()
