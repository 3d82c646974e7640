"""An OpenTelemetry collector over HTTP, in a thread of the test's process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from driving import Api
from portico.server import Server
from portico.telemetry.exporting import THREAD
from portico.telemetry.sdk import Telemetry

WAIT_SECONDS = 20.0


class Post(NamedTuple):
    """A request, unmodified."""

    path: str
    headers: dict[str, str]
    body: bytes


def values(attributes: Any) -> dict[str, str | int]:
    """Attributes by their names."""
    found: dict[str, str | int] = {}
    one: KeyValue
    for one in attributes:
        kind = one.value.WhichOneof("value")
        assert kind is not None
        found[one.key] = getattr(one.value, kind)
    return found


class Collector:
    """Stores the requests it receives, and answers with `status`."""

    def __init__(self) -> None:
        self.status = 200
        self.endless = False
        """Whether the body of an answer goes on for as long as the client reads."""
        self.posts: list[Post] = []
        self.url = ""
        self._arrived = threading.Condition()

    def took(self, post: Post) -> None:
        """Stores a request."""
        with self._arrived:
            self.posts.append(post)
            self._arrived.notify_all()

    @property
    def spans(self) -> list[Span]:
        """All spans received so far."""
        return [span for _, spans in self._traces() for span in spans]

    @property
    def resources(self) -> list[dict[str, str | int]]:
        """The resources that sent spans, once for each export."""
        return [resource for resource, _ in self._traces()]

    def _traces(self) -> Iterator[tuple[dict[str, str | int], list[Span]]]:
        for post in self.posts:
            if post.path == "/v1/traces":
                for sent in ExportTraceServiceRequest.FromString(post.body).resource_spans:
                    spans = [span for scope in sent.scope_spans for span in scope.spans]
                    yield values(sent.resource.attributes), spans

    @property
    def metrics(self) -> dict[str, Metric]:
        """The latest metrics received, by name."""
        latest = [post for post in self.posts if post.path == "/v1/metrics"][-1:]
        return {
            metric.name: metric
            for post in latest
            for sent in ExportMetricsServiceRequest.FromString(post.body).resource_metrics
            for scope in sent.scope_metrics
            for metric in scope.metrics
        }

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits until a request has arrived after which `condition` is true."""
        end = time.monotonic() + WAIT_SECONDS
        with self._arrived:
            while not condition():
                came = self._arrived.wait(end - time.monotonic())
                assert came, [span.name for span in self.spans]

    def more(self, count: int) -> None:
        """Waits until so many more requests have arrived."""
        last = len(self.posts) + count
        self.wait(lambda: len(self.posts) >= last)

    def got(self, name: str) -> Span:
        """Waits for the span of this name and returns it."""
        self.wait(lambda: any(span.name == name for span in self.spans))
        return next(span for span in self.spans if span.name == name)


@contextmanager
def collecting() -> Iterator[Collector]:
    """A running collector."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(collector.status)
            if not collector.endless:
                self.send_header("content-length", "0")
            self.end_headers()
            collector.took(Post(self.path, headers, body))
            with suppress(ConnectionError):
                while collector.endless:
                    self.wfile.write(bytes(2**16))

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    serving.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def exporting() -> list[threading.Thread]:
    """The threads that export in this process."""
    names = (THREAD, "OtelBatch")
    return [thread for thread in threading.enumerate() if thread.name.startswith(names)]


def exported() -> None:
    """Waits until no thread exports any more."""
    for thread in exporting():
        thread.join(WAIT_SECONDS)


async def trace(api: Api, endpoint: str) -> Telemetry:
    """Restarts the server of `api` with exports to a collector."""
    await api.server.stop()
    telemetry = Telemetry(endpoint, "process-1")
    api.server = Server(api.portico, telemetry=telemetry)
    api.application = api.server.application
    await api.server.start()
    return telemetry
