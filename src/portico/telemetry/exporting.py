"""How the SDK's exporters ask a collector, and whether that takes what they send."""

import logging
import os
import re
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from threading import Thread
from typing import Any, TypeVar

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.trace.export import SpanExportResult

from portico.telemetry.variables import require_headers, traces_wanted

TRACES, METRICS = "/v1/traces", "/v1/metrics"

THREAD = "telemetry"
"""The name of what exports beside the SDK's own thread."""

T = TypeVar("T")


def apart(work: Callable[[], T]) -> "Future[T]":
    """Does what may take long in a thread that no stop waits for."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    Thread(target=_settle, args=(done, work), name=THREAD, daemon=True).start()
    return done


def _settle(done: "Future[T]", work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except Exception as error:  # noqa: BLE001 - whoever waits for the future raises it
        done.set_exception(error)


class BriefSession(requests.Session):
    """Reads next to nothing of an answer's body, of which nobody wants to know: the SDK would read
    it to its end, and there may be none."""

    outcome = ""
    """What came of the last request, where it was not taken."""
    _asking: "Future[requests.Response] | None" = None

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """See `requests.Session`, whose timeout is for each piece of an answer: here it is for the
        whole. One that still comes is waited for before anything else is sent."""
        if self._asking is None or self._asking.done():
            asking = self._asking = apart(partial(self._ask, request, **options))
            if wait([asking], options.get("timeout")).done:
                return asking.result()
        self.outcome = "it does not answer in time"
        raise requests.Timeout(self.outcome)

    def _ask(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response = super().send(request, **{**options, "stream": True})
            # A connection on which the whole body has come is used again, any other is closed.
            response.raw.read1(1024)
            response.close()
        except Exception as error:
            self.outcome = f"it does not answer ({type(error).__name__})"
            raise
        self.outcome = f"it answers {response.status_code}" if response.status_code >= 300 else ""
        if 300 <= response.status_code < 400:  # which the SDK takes for a success
            raise requests.TooManyRedirects(f"{self.outcome}, and redirects are not followed")
        return response


def brief_session() -> BriefSession | None:
    """One for an exporter; None where a variable gives the SDK another's, which has credentials."""
    given = re.compile(r"OTEL_PYTHON_EXPORTER_OTLP_HTTP_(?:\w+_)?CREDENTIAL_PROVIDER")
    return None if any(map(given.fullmatch, os.environ)) else BriefSession()


def refusal(endpoint: str, seconds: float) -> str:
    """Why a collector takes nothing, empty where it does. Raises `SettingError` where an `OTEL_`
    variable is impossible."""
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
