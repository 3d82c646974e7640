"""How the SDK's exporters send requests to a collector, whether it accepts them, and the `OTEL_`
variables that the SDK does not check or apply itself."""

import logging
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.util.re import parse_env_headers

from portico.settings import SettingError

TRACES, METRICS = "/v1/traces", "/v1/metrics"

THREAD = "telemetry"
"""The name of the threads that export beside the SDK's own."""

T = TypeVar("T")


def in_daemon_thread(work: Callable[[], T]) -> "Future[T]":
    """Runs slow work in a daemon thread, which does not delay the end of the process."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    Thread(target=_finish, args=(done, work), name=THREAD, daemon=True).start()
    return done


def _finish(done: "Future[T]", work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except Exception as error:  # noqa: BLE001 - raised where the future is awaited
        done.set_exception(error)


class BriefSession(requests.Session):
    """Reads only the beginning of an answer's body, which is not needed: the SDK would read it to
    its end, and it may be endless."""

    outcome = ""
    """Why the last request failed; empty if it succeeded."""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """See `requests.Session`."""
        try:
            response = super().send(request, **{**options, "stream": True})
            # A connection whose whole body was read is reused, any other is closed.
            response.raw.read1(1024)
            response.close()
        except Exception as error:
            self.outcome = f"it does not answer ({type(error).__name__})"
            raise
        self.outcome = f"it answers {response.status_code}" if response.status_code >= 300 else ""
        if 300 <= response.status_code < 400:  # the SDK would take it for a success
            raise requests.TooManyRedirects(f"{self.outcome}, and redirects are not followed")
        return response


def brief_session() -> BriefSession | None:
    """A session for an exporter; None if a variable tells the SDK to use a credential provider's
    session."""
    given = re.compile(r"OTEL_PYTHON_EXPORTER_OTLP_HTTP_(?:\w+_)?CREDENTIAL_PROVIDER")
    return None if any(map(given.fullmatch, os.environ)) else BriefSession()


def refusal(endpoint: str, seconds: float) -> str:
    """Why a collector rejects exports; empty if it accepts them. Raises `SettingError` for an
    impossible `OTEL_` variable."""
    require_headers(os.environ)
    logger = logging.getLogger("opentelemetry")
    logger.propagate, logger.handlers = False, [logging.NullHandler()]
    session = brief_session()
    if traces_wanted(os.environ):
        spans = OTLPSpanExporter(f"{endpoint}{TRACES}", timeout=seconds, session=session)
        taken = spans.export([]) is SpanExportResult.SUCCESS
    else:
        metrics = OTLPMetricExporter(f"{endpoint}{METRICS}", timeout=seconds, session=session)
        taken = metrics.export(MetricsData(resource_metrics=[])) is MetricExportResult.SUCCESS
    return "" if taken else (session and session.outcome) or "look into its log"


HEADERS = tuple(f"OTEL_EXPORTER_OTLP_{of}HEADERS" for of in ("", "TRACES_", "METRICS_"))


def require_headers(environ: Mapping[str, str]) -> None:
    """Raises `SettingError` if header fields for the collector cannot be sent. The message does not
    contain them, since they may be secrets."""
    logging.getLogger("opentelemetry.util.re").disabled = True  # it logs fields it cannot read
    for variable in HEADERS:
        for field in filter(str.strip, environ.get(variable, "").split(",")):
            values = [*parse_env_headers(field, liberal=True).values()]
            if not values or not values[0].isascii() or not values[0].isprintable():
                raise SettingError(
                    f"{variable} must be name=value, comma-separated and percent-encoded, such as"
                    " authorization=Bearer%20…"
                )


def traces_wanted(environ: Mapping[str, str]) -> bool:
    """Whether spans are exported. They are created and propagated in any case."""
    return environ.get("OTEL_TRACES_EXPORTER") != "none"


def metrics_period(environ: Mapping[str, str]) -> float | None:
    """Seconds between two exports of metrics, None if they are not exported. The variables are read
    as by the SDK's own metric reader, which cannot be used: it takes no histograms from others."""
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if disabled or environ.get("OTEL_METRICS_EXPORTER") == "none":
        return None
    given = environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    return max(int(given), 1) / 1000 if given.isascii() and given.isdigit() else 60.0
