"""Counts, latencies and a log line for every request."""

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from portico.core.requests import NO_KEY, NOBODY, NOWHERE, FailedRequest, RequestCounts
from portico.core.times import HOUR
from portico.web.envelope import timestamp
from portico.web.messages import Request
from portico.web.routing import Endpoint

# A pattern matches as soon as a token begins, whatever follows: one that failed at the end of a
# long path would be tried again at each position in it.
_SECRETS = re.compile(
    r"sk_(?:live|test|read)_[0-9A-Za-z_]+|o(?:at|rt|ac|cs)_[\w-]+|eyJ[\w-]*(?:\.[\w-]*){0,2}"
    r"|whsec_[\w%+/=-]+|(?<=://)[^/\s]+(?=@)"
)


def redact(text: str) -> str:
    """`text` without API keys, OAuth tokens, codes and secrets, webhook secrets, JSON Web Tokens
    and credentials in URLs."""
    if "_" in text or "eyJ" in text or "@" in text:
        return _SECRETS.sub("(redacted)", text)
    return text


BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency histogram, in seconds."""

LOG_PERIOD = 0.05
"""Seconds between two batches of lines."""

MOST_LINES = 250
"""A batch of so many lines is written at once: a longer one would delay requests."""

METHOD_LENGTH = 32
PATH_LENGTH = 512
CLIENT_LENGTH = 200
"""The most characters of each in a line, so that even with JSON's escapes the line stays below the
4 KiB that a pipe writes atomically."""

_encode_lines = msgspec.json.Encoder().encode_lines


class Series:
    """The requests to one endpoint that were answered with one status."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0


class _Line(msgspec.Struct, tag_field="event", tag="request", gc=False):
    time: str
    request_id: str
    method: str
    path: str
    status: int
    milliseconds: float
    address: str
    user_id: int | None
    credential: str | None
    credential_id: int | None
    level: str = "info"
    client_id: str | UnsetType = UNSET
    trace_id: str | UnsetType = UNSET


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


class RequestLog:
    """One JSON line per request, written in batches."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        """`write` takes whole lines and does not block."""
        self._write = write
        self._lines: list[_Line] = []

    def add(self, request: Request, status: int, seconds: float, trace_id: str) -> None:
        """Adds one request; `trace_id` is empty if it has no trace. Method and path are redacted;
        nothing else that the client sent is logged."""
        caller = request.caller
        client_id = caller.client_id if caller else None
        self._lines.append(
            _Line(
                timestamp(request.now),
                request.id,
                _cut(redact(request.method), METHOD_LENGTH),
                _cut(redact(request.path), PATH_LENGTH),
                status,
                int(seconds * 1e6) / 1000,
                request.address,
                caller.user_id if caller else None,
                caller.credential if caller else None,
                caller.credential_id if caller else None,
                client_id=_cut(client_id, CLIENT_LENGTH) if client_id else UNSET,
                trace_id=trace_id or UNSET,
            )
        )
        if len(self._lines) >= MOST_LINES:
            self._write_out()

    async def run(self) -> None:
        """Writes the gathered lines."""
        if self._lines:
            self._write_out()

    def _write_out(self) -> None:
        # Encoding a batch at once costs less than a line after each request.
        lines, self._lines = self._lines, []
        self._write(_encode_lines(lines))


class RequestSpans(Protocol):
    """Traces requests."""

    def answered(self, request: Request, endpoint: Endpoint | None, status: int) -> str:
        """Ends the span of the current request. Returns the trace's id, empty without a trace."""
        ...


class Measure:
    """Records every answered request of this process."""

    def __init__(self, log: RequestLog | None, spans: RequestSpans | None = None) -> None:
        """`log` is None if requests are not logged, `spans` if they are not traced."""
        self._log = log
        self._spans = spans
        self.series: dict[tuple[Endpoint | None, int], Series] = {}
        self.refusals: dict[str, int] = {}
        """Requests over a limit, by environment."""

    def record(
        self, request: Request, endpoint: Endpoint | None, status: int, seconds: float
    ) -> None:
        """Counts one answered request."""
        key = (endpoint, status)
        series = self.series.get(key)
        if series is None:
            series = self.series[key] = Series()
        series.buckets[bisect_left(BUCKETS, seconds)] += 1
        series.seconds += seconds
        if status == 429 and request.verdict is not None and not request.verdict.admitted:
            name = request.environment.name
            self.refusals[name] = self.refusals.get(name, 0) + 1
        spans = self._spans
        trace_id = "" if spans is None else spans.answered(request, endpoint, status)
        if self._log is not None:
            self._log.add(request, status, seconds, trace_id)
        account_id = request.account_id
        if account_id is not None:
            caller = request.caller
            key_id = caller.credential_id if caller and caller.credential == "api_key" else NO_KEY
            route = request.label or (endpoint.name if endpoint else NOWHERE)
            counts = request.environment[RequestCounts]
            counts.count((account_id, request.now // HOUR, route, status, key_id), request.cost)
            if status >= 400 and account_id != NOBODY:
                counts.failed(
                    FailedRequest(
                        account_id,
                        request.now,
                        route,
                        status,
                        request.error_code,
                        key_id,
                        request.id,
                    )
                )
