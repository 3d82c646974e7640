"""Traces and metrics reach a collector over OTLP, without secrets, and cost nothing where it is
away."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from answering import answering
from collecting import Collector, collecting, exported, exporting, trace, values
from driving import Api, InProcess, settings_for
from operating import eventually, free_port
from portico.telemetry.sdk import Telemetry

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
HOST = ("host", "localhost:8443")


async def got(collector: Collector, name: str) -> Span:
    """The span of this name, once it is there."""
    return await asyncio.to_thread(collector.got, name)


async def test_request_is_a_span_of_its_callers_trace(
    api: Api, collector: Collector, capfd: pytest.CaptureFixture[str]
) -> None:
    await trace(api, collector.url)
    admin = await api.caller("admin")
    headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
    answer = await admin.get(f"/users/{admin.user.id}?", headers=headers)
    assert answer.status_code == 200
    span = await got(collector, "GET /v1/users/{id}")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.trace_state == "vendor=1"
    assert span.kind == Span.SPAN_KIND_SERVER
    assert values(span.attributes) == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "http.route": "/v1/users/{id}",
        "network.protocol.version": "1.1",
        "portico.environment": "live",
        "portico.request_id": answer.headers["x-request-id"],
        "url.scheme": "https",
    }
    (resource, *_) = collector.resources
    assert resource["service.name"] == "portico"
    assert resource["service.instance.id"] == "process-1"
    line = json.loads(await eventually(lambda: capfd.readouterr().err, "the line"))
    assert (line["request_id"], line["trace_id"]) == (answer.headers["x-request-id"], TRACE)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("traceparent", f"00-{TRACE}-{PARENT}")],
        [("traceparent", "é")],
        [("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)],
    ],
    ids=["none", "short", "unreadable", "twice"],
)
async def test_what_is_no_traceparent_begins_a_trace(
    api: Api, collector: Collector, headers: list[tuple[str, str]]
) -> None:
    answer = await InProcess(api).exchange("GET", "/v1/users/1", [HOST, *headers])
    assert answer.status_code == 401
    span = await got(collector, "GET /v1/users/{id}")
    assert span.trace_id.hex() != TRACE
    assert not span.parent_span_id
    assert not span.trace_state


async def test_what_its_caller_does_not_sample_is_not_exported(
    api: Api, collector: Collector
) -> None:
    unsampled = ("traceparent", f"00-{TRACE}-{PARENT}-00")
    await InProcess(api).exchange("GET", "/v1/users/1", [HOST, unsampled])
    await InProcess(api).exchange("GET", "/healthz", [HOST])
    await InProcess(api).exchange("BREW", "/v1/nowhere/at/all", [HOST])
    span = await got(collector, "HTTP")  # the last one, so that none before it is still to come
    assert values(span.attributes)["http.request.method"] == "_OTHER"
    assert [span.name for span in collector.spans] == ["HTTP"]


async def test_disabled_sdk_exports_nothing_and_keeps_no_trace_of_a_change(
    api: Api, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    telemetry = await trace(api, collector.url)
    assert telemetry.metrics_period is None
    admin = await api.caller("admin")
    lamp = {"name": "Lamp", "category": "lighting", "price": 1}
    assert (await admin.post("/products", json=lamp)).status_code == 201
    assert not await api.live.db.all("SELECT id FROM events WHERE traceparent IS NOT NULL")
    await api.server.stop()
    assert not collector.resources


async def test_answer_of_5xx_is_an_error(api: Api, collector: Collector) -> None:
    api.server.pipeline.is_behind = True
    assert (await InProcess(api).exchange("GET", "/v1/users/1", [HOST])).status_code == 503
    span = await got(collector, "GET")
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert values(span.attributes)["error.type"] == "SERVICE_UNAVAILABLE"


async def test_nothing_that_is_sent_shows_up_in_what_is_exported(
    api: Api, collector: Collector
) -> None:
    admin = await api.caller("admin")
    canary = "c4n4ry"
    wanderer = InProcess(api)
    headers = [HOST, ("authorization", f"Bearer {admin.key}"), ("cookie", f"session={canary}")]
    headers += [("user-agent", canary), ("x-api-key", canary), ("idempotency-key", canary)]
    headers += [("baggage", f"secret={canary}"), ("content-type", "application/json")]
    body = json.dumps({"email": canary, "password": canary, "name": canary}).encode()
    for path in ("/v1/users", f"/v1/products/{canary}", f"/{canary}", "/auth/login", "/token"):
        for method in ("GET", "POST", canary.upper()):
            await wanderer.exchange(method, f"{path}?token={canary}", headers, body)
    await wanderer.exchange("GET", "/v1/users/2", headers)
    await got(collector, "GET /v1/users/{id}")
    await asyncio.to_thread(collector.wait, lambda: bool(collector.metrics))
    for post in collector.posts:
        for secret in (canary, canary.upper(), admin.key, admin.user.email, "127.0.0.1"):
            assert secret.encode() not in post.body


async def test_metrics_are_those_of_prometheus(api: Api, collector: Collector) -> None:
    for user in (1, 2, 3):
        await InProcess(api).exchange("GET", f"/v1/users/{user}", [HOST])

    def requests() -> int:
        found = collector.metrics.get("portico_http_request_duration_seconds")
        return found.histogram.data_points[0].count if found else 0

    await asyncio.to_thread(collector.wait, lambda: requests() == 3)
    (point,) = collector.metrics["portico_http_request_duration_seconds"].histogram.data_points
    assert sum(point.bucket_counts) == 3
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert 0 < point.sum < 60
    assert values(point.attributes) == {
        "environment": "live",
        "method": "GET",
        "route": "/v1/users/{id}",
        "status": "401",
    }
    page = await InProcess(api).exchange("GET", "/metrics", [HOST])
    names = {line.split()[2] for line in page.text.splitlines() if line.startswith("# TYPE")}
    names = {name.removesuffix("_total") for name in names}
    # Prometheus shows those too that have no number yet.
    assert collector.metrics.keys() <= names
    assert {"portico_build_info", "portico_job_failures"} <= collector.metrics.keys()
    assert collector.metrics["portico_job_failures"].sum.is_monotonic


async def test_collector_that_is_away_costs_two_lines_and_delays_no_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "5")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "5")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=c4n4ry")
    with collecting() as collector:
        collector.status = 400
        async with Api(settings_for(tmp_path, {})) as api:
            await trace(api, collector.url)
            for _ in range(3):
                answer = await InProcess(api).exchange("GET", "/v1/users/1", [HOST])
                assert answer.status_code == 401
                await asyncio.to_thread(collector.more, 2)
            assert collector.posts[0].headers["authorization"] == "c4n4ry"
            monkeypatch.setattr("portico.telemetry.sdk.FLUSH_SECONDS", 3600.0)
        # It has stopped: for an hour, if it waited.
        await asyncio.to_thread(exported)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len([line for line in told if line.startswith("OpenTelemetry (then silent")]) == 1
    assert len([line for line in told if "the job telemetry fails" in line]) == 1
    assert "c4n4ry" not in caplog.text


async def test_collector_that_says_nothing_delays_a_stop_by_seconds_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setattr("portico.telemetry.sdk.FLUSH_SECONDS", 0.01)

    async def say_nothing(*_connection: object) -> None:
        await asyncio.sleep(3600)

    async with answering(say_nothing) as port:
        telemetry = Telemetry(f"http://127.0.0.1:{port}", "two")
        await telemetry.stop([])
        assert exporting()
        await asyncio.to_thread(exported)


async def test_stop_exports_what_has_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,deployment.environment=test")
    monkeypatch.setattr("portico.telemetry.sdk.FLUSH_SECONDS", 60.0)
    with collecting() as collector:
        async with Api(settings_for(tmp_path, {})) as api:
            await trace(api, collector.url)
            await InProcess(api).exchange("GET", "/v1/users/1", [HOST])
        assert [span.name for span in collector.spans] == ["GET /v1/users/{id}"]
        assert "portico_http_request_duration_seconds" in collector.metrics
        (resource,) = collector.resources
    assert resource["service.name"] == "shop"
    assert resource["deployment.environment"] == "test"


def run(code: str, directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_without_a_collector_opentelemetry_is_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys, portico.cli.serve\n"
        "from portico.app import Portico\n"
        "from portico.server import Server\n"
        "from portico.settings import load\n"
        "from pathlib import Path\n"
        "Server(Portico(load({}, {}, Path())))\n"
        "print([name for name in sys.modules if 'telemetry' in name])"
    )
    done = run(code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_asking_for_it_without_the_extra_stops_the_start_with_one_line(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "from portico.cli.main import main\n"
        "sys.argv[1:] = ['serve']\n"
        "sys.exit(main())"
    )
    done = run(code, tmp_path, PORTICO_OTLP_ENDPOINT="http://127.0.0.1:4318", PORTICO_PORT="1")
    assert done.returncode == 2, done.stderr
    assert "install the wheel with its extra [otel]" in done.stderr
    assert "pip install" not in done.stderr  # by its name alone, an index may have another package
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%0Ac4n4ry"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
    ],
)
def test_impossible_variable_stops_the_start_with_one_line(
    tmp_path: Path, variable: str, value: str
) -> None:
    code = (
        "import sys; from portico.cli.main import main; sys.argv[1:] = ['serve']; sys.exit(main())"
    )
    given = {"PORTICO_PORT": str(free_port()), variable: value}
    done = run(code, tmp_path, PORTICO_OTLP_ENDPOINT="http://127.0.0.1:4318", **given)
    assert done.returncode == 2, done.stderr
    assert "OTEL_" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "c4n4ry" not in done.stderr
    assert done.stdout == ""


async def test_pages_of_other_origins_may_send_what_continues_their_trace(
    tmp_path: Path, collector: Collector
) -> None:
    page = {"origin": "https://app.example.com", "access-control-request-method": "GET"}
    settings = settings_for(tmp_path, {"PORTICO_CORS_ORIGINS": page["origin"]})
    async with Api(settings) as api:
        await trace(api, collector.url)
        for path in ("/products", "/nowhere", "/openapi.json"):
            answer = await api.stranger().options(path, headers=page)
            allowed = answer.headers["access-control-allow-headers"].split(", ")
            assert {"If-Match", "If-None-Match", "traceparent", "tracestate"} <= {*allowed}, path


async def test_of_an_answer_without_end_next_to_nothing_is_read(
    api: Api, collector: Collector
) -> None:
    collector.endless = True
    for count in (1, 2):
        await InProcess(api).exchange("GET", "/v1/users/1", [HOST])
        collector.wait(lambda count=count: len(collector.spans) >= count)  # type: ignore[misc]
