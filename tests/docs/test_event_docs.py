"""The examples in docs/events.md are events that happened."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from documents import document
from driving import Api, settings_for
from event_examples import examples, sections


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The running application, with nobody in it."""
    async with Api(settings_for(tmp_path, {})) as api:
        yield api


async def test_the_examples_of_events_are_of_a_run(api: Api) -> None:
    made = sections(await examples(api))
    assert document("docs/events.md").marked("examples") == made, "run tests/event_examples.py"
