"""Deliveries that were queued while the clock was ahead do not wait for that time."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.test_webhooks import HOOK
from driving import NOON, Api, at_rest, settings_for
from portico.contract.events import delivered
from portico.domain.audit import OPERATOR
from portico.domain.times import HOUR, SECOND
from portico.jobs.deliveries import CLAIM_SECONDS, Deliver
from portico.services.webhooks import create_webhook

SOON = NOON + CLAIM_SECONDS * SECOND


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The stores, without jobs of their own."""
    async with at_rest(settings_for(tmp_path, environ)) as api:
        yield api


@pytest.fixture
async def webhook_id(api: Api) -> int:
    """An enabled webhook."""
    values = {"url": HOOK["url"], "types": ("*",), "description": ""}
    return (await create_webhook(api.live, values, OPERATOR)).webhook.id


def process(api: Api) -> Deliver:
    return Deliver(api.live, api.portico.sender, delivered, "Portico", lambda: 0)


async def run(api: Api, deliver: Deliver) -> None:
    api.live.db.bell.ring()
    await deliver.run()


async def queue(api: Api, webhook_id: int, again_after: int = 0) -> None:
    """Queues a delivery now, or notes that it is tried again later."""
    async with api.live.db.transaction() as tx:
        await api.live.deliveries.add(tx, api.clock(), [(webhook_id, 1, "product.created")])
        (newest,) = await tx.all("SELECT max(id) FROM deliveries")
        if again_after:
            await api.live.deliveries.release(tx, [newest[0]], api.clock() + again_after)


async def due(api: Api) -> list[int]:
    rows = await api.live.db.all("SELECT next_attempt_at FROM deliveries ORDER BY id")
    return [row[0] for row in rows]


async def test_they_are_due_soon_once_the_clock_is_put_back(api: Api, webhook_id: int) -> None:
    deliver = process(api)
    api.clock.now = NOON + HOUR
    await run(api, deliver)
    await queue(api, webhook_id)
    await queue(api, webhook_id, HOUR)
    api.clock.now = NOON
    await run(api, deliver)
    assert await due(api) == [SOON, SOON]
    await deliver.close()


async def test_they_are_due_soon_after_a_start(api: Api, webhook_id: int) -> None:
    api.clock.now = NOON + HOUR
    await queue(api, webhook_id)
    api.clock.now = NOON
    deliver = process(api)
    await run(api, deliver)
    assert await due(api) == [SOON]
    await deliver.close()


async def test_what_is_tried_again_later_by_a_right_clock_waits(api: Api, webhook_id: int) -> None:
    await queue(api, webhook_id, HOUR)
    deliver = process(api)
    await run(api, deliver)
    assert await due(api) == [NOON + HOUR]
    await deliver.close()
