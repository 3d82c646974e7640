"""Deliveries carry on the trace of the change that they tell of."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collecting import Collector, collecting, trace, values
from driving import Api, settings_for
from receiving import Receiver, receiving

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
LAMP = {"name": "Lamp", "category": "light", "price": 12.5}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector; what is exported to it comes soon."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with collecting() as collector:
        yield collector


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path, collector: Collector) -> AsyncIterator[Api]:
    """The running application. What is traced ends before the collector does."""
    assert collector.url
    async with Api(settings_for(tmp_path, environ)) as api:
        yield api


@pytest.mark.one_engine
@pytest.mark.parametrize("flags", ["01", "00"], ids=["sampled", "unsampled"])
async def test_a_delivery_carries_on_the_trace_of_its_change(
    api: Api, collector: Collector, flags: str
) -> None:
    await trace(api, collector.url)
    admin = await api.caller("admin")
    async with receiving(Receiver()) as receiver:
        url = f"http://127.0.0.1:{receiver.port}/s3cr3t"
        await admin.post("/webhooks", json={"url": url, "types": ["product.*"]})
        carried = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-{flags}"}
        assert (await admin.post("/products", json=LAMP, headers=carried)).status_code == 201
        (request,) = await receiver.got(1)
    version, trace_id, span_id, sampled = request.headers["traceparent"].split("-")
    assert (version, trace_id, sampled) == ("00", TRACE, flags)
    if flags == "00":
        return
    sent = await asyncio.to_thread(collector.got, "POST")
    change = await asyncio.to_thread(collector.got, "POST /v1/products")
    assert sent.kind == Span.SPAN_KIND_CLIENT
    assert sent.span_id.hex() == span_id
    assert (sent.trace_id.hex(), sent.parent_span_id) == (TRACE, change.span_id)
    assert values(sent.attributes) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "server.address": "127.0.0.1",
        "server.port": receiver.port,
    }
    assert not any(b"s3cr3t" in post.body for post in collector.posts)
