"""Exports spans and metrics to a collector over OTLP, by OpenTelemetry's SDK. The metrics are those
of Prometheus, converted, so that they are counted once.

The SDK reads its own `OTEL_` variables: headers, sampling, attributes of the resource, batches.
"""

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import export as otlp
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric

from portico.core.errors import Unavailable
from portico.outbound.sender import Sends
from portico.settings import SettingError
from portico.telemetry.exporting import (
    METRICS,
    TRACES,
    brief_session,
    in_daemon_thread,
    metrics_period,
    require_headers,
    traces_wanted,
)
from portico.telemetry.tracing import READ, Spans, TracedApplication, TracedSender
from portico.version import version
from portico.web.messages import Application

FLUSH_SECONDS = 2.0
"""How long a stop waits for the last export."""

SILENCE_SECONDS = 300.0
"""The shortest time between two log lines from the SDK."""

log = logging.getLogger(__name__)


class Telemetry:
    """The traces and metrics of this process. Create it after any fork, since it starts a
    thread."""

    def __init__(self, endpoint: str, instance: str) -> None:
        """`endpoint` is the collector's, without `/v1/…`; `instance` is a name unique to this
        process. Raises `SettingError` for an impossible `OTEL_` variable."""
        _speak_seldom(logging.getLogger("opentelemetry"))
        require_headers(os.environ)
        try:
            self._build(endpoint, instance)
        except (ValueError, RuntimeError) as error:
            raise SettingError(f"the variables OTEL_… cannot be used: {error}") from error

    def _build(self, endpoint: str, instance: str) -> None:
        self._resource = (
            Resource.create({"service.name": "portico", "service.version": version()})
            .merge(OTELResourceDetector().detect())
            .merge(Resource({"service.instance.id": instance}))
        )
        self._scope = InstrumentationScope("portico", version())
        self._started = time.time_ns()
        self._spans = _SpanExporter(f"{endpoint}{TRACES}", session=brief_session())
        self._metrics = OTLPMetricExporter(f"{endpoint}{METRICS}", session=brief_session())
        self._metrics_arrive = True
        self._provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        if traces_wanted(os.environ):
            self._provider.add_span_processor(BatchSpanProcessor(self._spans))
        self._tracer = self._provider.get_tracer("portico", version())
        self.spans = Spans()
        self.read = READ
        """The headers of a request that its application reads."""
        self.metrics_period = metrics_period(os.environ)
        """Seconds between two exports of metrics; None if they are not exported."""

    @classmethod
    def require_usable(cls, endpoint: str) -> None:
        """Raises `SettingError` for an impossible `OTEL_` variable. Leaves no thread behind."""
        telemetry = cls(endpoint, "")
        telemetry._provider.shutdown()

    def application(self, application: Application) -> Application:
        """The application with a span for each request."""
        return TracedApplication(application, self._tracer)

    def sender(self, sender: Sends) -> Sends:
        """The sender with a span for each delivery whose change was traced."""
        return TracedSender(sender, self._tracer)

    async def export(self, families: Iterable[Metric]) -> None:
        """Sends metrics. Raises `Unavailable` if the collector does not accept them."""
        data = self._data(families)
        await asyncio.wrap_future(in_daemon_thread(lambda: self._send(data)))
        if not self._metrics_arrive:
            raise Unavailable("The OpenTelemetry collector took no metrics.")

    async def stop(self, families: Iterable[Metric]) -> None:
        """Sends the last spans and metrics, and waits for that at most `FLUSH_SECONDS`, or not at
        all if the last export failed."""
        data = self._data(families)

        def flush() -> None:
            if self.metrics_period is not None:
                self._send(data)
            self._provider.shutdown()

        arrives = self._spans.arrive and self._metrics_arrive
        flushing = in_daemon_thread(flush)
        if arrives:
            await asyncio.wait([asyncio.wrap_future(flushing)], timeout=FLUSH_SECONDS)

    def _data(self, families: Iterable[Metric]) -> MetricsData:
        return _metrics_data(families, self._resource, self._scope, self._started, time.time_ns())

    def _send(self, data: MetricsData) -> None:
        self._metrics_arrive = self._metrics.export(data) is MetricExportResult.SUCCESS


class _SpanExporter(OTLPSpanExporter):
    """Records whether the last spans arrived."""

    arrive = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See `SpanExporter`."""
        result = super().export(spans)
        self.arrive = result is SpanExportResult.SUCCESS
        return result


class _Seldom(logging.Handler):
    """Logs one record, and then none for `SILENCE_SECONDS`."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._silent_until = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + SILENCE_SECONDS
            # Without the exception: its traceback through the SDK does not help operators.
            log.warning("OpenTelemetry (then silent for 5 minutes): %s", record.getMessage())


def _speak_seldom(logger: logging.Logger) -> None:
    """Limits the SDK's log lines: it logs every failed batch several times. Lines about clients'
    header fields are dropped, as they would crowd out those."""
    logger.propagate = False
    logger.handlers = [_Seldom()]
    for what_callers_send in ("span", "propagation"):
        logger.getChild(f"trace.{what_callers_send}").setLevel(logging.ERROR)


def _metrics_data(
    families: Iterable[Metric],
    resource: Resource,
    scope: InstrumentationScope,
    started: int,
    now: int,
) -> MetricsData:
    """The metrics that Prometheus would read, in OTLP's form. `started`, when counting began, and
    `now` are in nanoseconds since the epoch."""
    metrics = [
        otlp.Metric(family.name, family.documentation, family.unit, _data(family, started, now))
        for family in families
        if family.samples
    ]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def _data(family: Metric, started: int, now: int) -> otlp.Sum | otlp.Gauge | otlp.Histogram:
    if family.type == "histogram":
        histograms = list(_histograms(family, started, now))
        return otlp.Histogram(histograms, AggregationTemporality.CUMULATIVE)
    points = [
        NumberDataPoint(sample.labels, started, now, float(sample.value))  # some are booleans
        for sample in family.samples
    ]
    if family.type == "counter":
        return otlp.Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return otlp.Gauge(points)


def _histograms(family: Metric, started: int, now: int) -> Iterator[HistogramDataPoint]:
    """A histogram for each set of labels. Prometheus' buckets are cumulative, OTLP's are not."""
    upto: dict[tuple[str, ...], list[float]] = {}
    bounds: dict[tuple[str, ...], list[float]] = {}
    labels: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for sample in family.samples:
        own = {name: value for name, value in sample.labels.items() if name != "le"}
        key = tuple(own.values())
        if sample.name.endswith("_bucket"):
            labels[key] = own
            upto.setdefault(key, [0]).append(sample.value)
            bounds.setdefault(key, []).append(float(sample.labels["le"]))
        elif sample.name.endswith("_sum"):
            counts = upto[key]
            yield HistogramDataPoint(
                attributes=labels[key],
                start_time_unix_nano=started,
                time_unix_nano=now,
                count=int(counts[-1]),
                sum=sample.value,
                bucket_counts=[int(more - less) for less, more in pairwise(counts)],
                explicit_bounds=bounds[key][:-1],  # the last one is infinite
                min=None,  # type: ignore[arg-type]  # unknown: OTLP omits the field
                max=None,  # type: ignore[arg-type]
            )
