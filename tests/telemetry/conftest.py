"""The application on SQLite, exporting to a collector in the test's process."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collecting import Collector, collecting, trace
from driving import Api, settings_for


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector; what is exported to it comes soon."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    with collecting() as collector:
        yield collector


@pytest.fixture
async def api(tmp_path: Path, collector: Collector) -> AsyncIterator[Api]:
    """The running application, traced and with a log of its requests."""
    async with Api(replace(settings_for(tmp_path, {}), log_requests=True)) as api:
        await trace(api, collector.url)
        yield api
