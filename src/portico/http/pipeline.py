"""The way of every API request, in order.

request id → error boundary → HTTPS → route → authenticate → throttle → permission
→ Accept → query → body → [idempotency] → endpoint → entity tag → encode → measure
"""

import itertools
import logging
import time
from collections.abc import Sequence
from typing import Any

from portico.contract.reading import decode, decode_query
from portico.domain.caller import require
from portico.domain.errors import (
    AuthenticationRequired,
    Internal,
    MethodNotAllowed,
    NotFound,
    PorticoError,
    RateLimited,
)
from portico.domain.ids import parse_id
from portico.domain.times import Clock
from portico.http.authenticate import Authenticators
from portico.http.conditions import entity_tag, matches
from portico.http.content import check_accept, check_content
from portico.http.measure import Measure
from portico.http.messages import NoQuery, Reply, Request, Scope
from portico.http.peers import Peers, limited_as, plain_http
from portico.http.problems import problem
from portico.http.routing import Endpoint, Place, Router
from portico.services.environment import Environment, Random

log = logging.getLogger(__name__)

CACHE = ("cache-control", "private, no-cache")
"""A caller's answers are theirs alone, and fresh: caches ask with the entity tag."""


class Pipeline:
    """Walks a request through every step and sends its reply."""

    def __init__(
        self,
        router: Router,
        authenticators: Authenticators,
        peers: Peers,
        measure: Measure,
        *,
        clock: Clock,
        random: Random,
        body_limit: int,
        secure_address: str,
    ) -> None:
        """`body_limit` is in bytes; `secure_address` is what callers over plain HTTP are told."""
        self._router = router
        self._authenticators = authenticators
        self._peers = peers
        self._measure = measure
        self._clock = clock
        self._body_limit = body_limit
        self._secure_address = secure_address
        self._id_prefix = f"req_{random(6).hex()}"
        self._count = itertools.count(1)

    async def handle(self, scope: Scope, proto: Any) -> None:
        """Answers one request of the server's (RSGI)."""
        started = time.perf_counter()
        request = Request(scope, proto, f"{self._id_prefix}{next(self._count):08x}")
        endpoint: Endpoint | None = None
        extra_headers: Sequence[tuple[str, str]] = ()
        request.now = self._clock()
        try:
            peer, secure = self._peers.origin(scope)
            request.address = limited_as(peer)
            if not secure:
                raise plain_http(self._secure_address)  # noqa: TRY301 - one boundary, one renderer
            place, id_text = self._router.find(request.path, request.headers)
            request.environment = place.environment
            extra_headers = place.extra_headers
            endpoint = place.methods.get(request.method)
            reply = await self._answer(request, place, endpoint, id_text)
        except PorticoError as error:
            reply = problem(error)
        except Exception:
            log.exception("unexpected error", extra={"request_id": request.id})
            reply = problem(Internal("Something went wrong here; the log has it by request id."))
        headers = reply.headers
        headers.append(("x-request-id", request.id))
        if extra_headers:
            headers.extend(extra_headers)
        verdict = request.verdict
        if verdict is not None:
            headers.append(("x-ratelimit-limit", str(verdict.limit)))
            headers.append(("x-ratelimit-remaining", str(verdict.remaining)))
            headers.append(("x-ratelimit-reset", str(verdict.reset)))
        proto.response_bytes(reply.status, headers, reply.body)
        self._measure.record(request, endpoint, reply.status, time.perf_counter() - started)

    async def _answer(
        self, request: Request, place: Place, endpoint: Endpoint | None, id_text: str | None
    ) -> Reply:
        if endpoint is not None and endpoint.public:
            await self._throttle_address(request)
        else:
            await self._admit(request)
        if endpoint is None:
            require(request.caller, None, request.method)
            raise _nowhere(request, place)
        if not endpoint.public:
            require(request.caller, endpoint.scope, request.method)
        if id_text is not None:
            request.resource_id = parse_id(id_text)
        check_accept(request)
        if endpoint.query is not None:
            request.query = decode_query(endpoint.query, request.query_string)
        elif request.query_string:
            decode_query(NoQuery, request.query_string)
        if endpoint.body is not None:
            check_content(request)
            request.body = decode(endpoint.body, await request.read_body(self._body_limit))
        reply = await endpoint.handler(request)
        if reply.status == 200 and request.method in ("GET", "HEAD"):
            return _tagged(request, reply)
        return reply

    async def _admit(self, request: Request) -> None:
        """Authenticates and counts the request, against its account or else its address."""
        environment = request.environment
        try:
            caller = await self._authenticators.caller(request)
        except AuthenticationRequired:
            await self._throttle_address(request)
            raise
        request.caller = caller
        await self._throttle(request, f"user:{caller.user_id}", caller.plan, environment)

    async def _throttle_address(self, request: Request) -> None:
        key = f"address:{request.address}"
        await self._throttle(request, key, "free", request.environment)

    async def _throttle(
        self, request: Request, key: str, plan: str, environment: Environment
    ) -> None:
        verdict = await environment.limiter.take(key, environment.plan(plan), request.now)
        request.verdict = verdict
        if not verdict.admitted:
            self._measure.refused(environment.name)
            raise RateLimited(
                f"Too many requests; try again in {verdict.retry_after} seconds.",
                retry_after=verdict.retry_after,
            )


def _nowhere(request: Request, place: Place) -> PorticoError:
    if place.methods:
        allowed = sorted(place.methods)
        return MethodNotAllowed(
            f"{request.method} is not possible here; use {', '.join(allowed)}.", allowed
        )
    return NotFound("There is nothing at this path.")


def _tagged(request: Request, reply: Reply) -> Reply:
    """The reply with its entity tag, or 304 where the caller has that representation."""
    tag = entity_tag(reply.body)
    known = request.listed("if-none-match")
    if known is not None and matches(known, tag, weak=True):
        return Reply(304, b"", [("etag", tag), CACHE])
    reply.headers.append(("etag", tag))
    reply.headers.append(CACHE)
    return reply
