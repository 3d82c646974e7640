"""Converts the metrics of this process from Prometheus to OTLP, so that they are counted once."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric as Family


def metrics_data(
    families: Iterable[Family],
    resource: Resource,
    scope: InstrumentationScope,
    started: int,
    now: int,
) -> MetricsData:
    """The metrics that Prometheus would read, in OTLP's form. `started`, when counting began, and
    `now` are in nanoseconds since the epoch."""
    metrics = [
        Metric(family.name, family.documentation, family.unit, _data(family, started, now))
        for family in families
        if family.samples
    ]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def _data(family: Family, started: int, now: int) -> Sum | Gauge | Histogram:
    if family.type == "histogram":
        return Histogram([*_histograms(family, started, now)], AggregationTemporality.CUMULATIVE)
    points = [
        NumberDataPoint(sample.labels, started, now, float(sample.value))  # some are booleans
        for sample in family.samples
    ]
    if family.type == "counter":
        return Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Gauge(points)


def _histograms(family: Family, started: int, now: int) -> Iterator[HistogramDataPoint]:
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
