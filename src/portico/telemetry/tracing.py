"""Spans of requests and deliveries, by OpenTelemetry's semantic conventions for HTTP.

A client's `traceparent` and `tracestate` are continued (W3C Trace Context); malformed ones begin a
new trace. No span has a path, a query, an address or a caller: the request's id leads to the log
line, which has them without secrets.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.context import Context, get_current
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    format_span_id,
    format_trace_id,
    get_current_span,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from portico.data.database import traceparent
from portico.outbound.sender import DeliveryOutcome, Sends
from portico.web.messages import Application, Request, Scope
from portico.web.routing import Endpoint

METHODS = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
)
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that monitoring requests all the time; they get no spans."""

_trace_context = TraceContextTextMapPropagator()
READ = frozenset(_trace_context.fields)
"""The headers of a request that are read."""


class _Fields(Getter[Any]):
    """The header fields of a request."""

    def get(self, carrier: Any, key: str) -> list[str] | None:
        """See `Getter`. A repeated `traceparent` is ignored."""
        values: list[str] = carrier.get_all(key)
        return None if key == "traceparent" and len(values) > 1 else values or None

    def keys(self, _carrier: Any) -> list[str]:
        """See `Getter`; not used."""
        return []


_fields = _Fields()


class TracedApplication:
    """An application with a span for each request, which `Spans` names and ends."""

    def __init__(self, application: Application, tracer: Tracer) -> None:
        self._application = application
        self._tracer = tracer

    async def __rsgi__(
        self, scope: Scope, proto: Any, last: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Answers one request."""
        if scope.path in PROBES:
            await self._application.__rsgi__(scope, proto, last)
            return
        method = scope.method if scope.method in METHODS else "_OTHER"
        span = self._tracer.start_span(
            "HTTP" if method == "_OTHER" else method,
            _trace_context.extract(scope.headers, get_current(), _fields),
            SpanKind.SERVER,
            {
                "http.request.method": method,
                "network.protocol.version": scope.http_version,
                "url.scheme": scope.scheme,
            },
        )
        known = traceparent.set(_traceparent(span))
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                await self._application.__rsgi__(scope, proto, last)
        finally:
            traceparent.reset(known)
            if span.is_recording():  # else `Spans` has ended it
                span.end()


class Spans:
    """Ends the spans of requests; see `web.measure.Spans`."""

    def answered(self, request: Request, endpoint: Endpoint | None, status: int) -> str:
        """Ends the span of the current request. Returns the trace's id, empty without a trace."""
        span = get_current_span()
        context = span.get_span_context()
        if span.is_recording():
            span.set_attribute("http.response.status_code", status)
            span.set_attribute("portico.request_id", request.id)
            if endpoint is not None:
                method = request.method if request.method in METHODS else "HTTP"
                span.update_name(f"{method} {endpoint.path}")
                span.set_attribute("http.route", endpoint.path)
                if endpoint.environment:
                    span.set_attribute("portico.environment", endpoint.environment)
            if status >= 500:
                _fail(span, request.error_code or str(status))
            span.end()
        return format_trace_id(context.trace_id) if context.is_valid else ""


class TracedSender:
    """A sender of deliveries with a span for each attempt, in the trace of the change."""

    def __init__(self, sender: Sends, tracer: Tracer) -> None:
        self._sender = sender
        self._tracer = tracer

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryOutcome:
        """See `Sends`. The span only has the URL's host: the path may be a secret."""
        if "traceparent" not in headers:
            return await self._sender.send(url, headers, body)
        parts = urlsplit(url)
        with self._tracer.start_as_current_span(
            "POST",
            _trace_context.extract(headers, Context()),
            SpanKind.CLIENT,
            {
                "http.request.method": "POST",
                "server.address": parts.hostname or "",
                "server.port": parts.port or (443 if parts.scheme == "https" else 80),
            },
        ) as span:
            parent = _traceparent(span) or headers["traceparent"]
            outcome = await self._sender.send(url, {**headers, "traceparent": parent}, body)
            if outcome.status is None:
                _fail(span, "_OTHER")
                return outcome
            span.set_attribute("http.response.status_code", outcome.status)
            if outcome.status >= 400:
                _fail(span, str(outcome.status))
            return outcome


def _fail(span: Span, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))


def _traceparent(span: Span) -> str | None:
    """The `traceparent` of a span (W3C Trace Context); None if the SDK is disabled."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    ids = f"{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}"
    return f"00-{ids}-{context.trace_flags:02x}"
