"""Which connections the watch knows of."""

import pytest

from driving import Api


@pytest.fixture
def environ() -> dict[str, str]:
    """The one that is quickest: no store has a part in it."""
    return {}


async def test_what_either_port_has_heard_is_known_to_one_watch(api: Api) -> None:
    """Only the watch forgets: what it does not know of would be kept for ever."""
    assert api.server.plain.connections is api.server.pipeline.connections
