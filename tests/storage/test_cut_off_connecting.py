"""What the driver leaves behind where an attempt to connect is cut off is told nobody."""

import asyncio
import gc
import ssl

import pytest
from asyncpg.connect_utils import TLSUpgradeProto

import portico.data.postgres.hosts  # noqa: F401 - it is what keeps quiet


async def test_a_connection_that_is_lost_while_nobody_waits_for_it_is_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context()
    TLSUpgradeProto(loop, "localhost", 5432, context, ssl_is_advisory=True).connection_lost(None)
    gc.collect()
    assert caplog.text == ""


async def test_any_other_error_that_nobody_waits_for_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.get_running_loop().create_future().set_exception(ConnectionError("refused"))
    gc.collect()
    assert "ConnectionError: refused" in caplog.text
