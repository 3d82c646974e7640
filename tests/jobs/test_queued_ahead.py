"""Deliveries that were queued while the clock was ahead do not wait for that time."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.test_webhooks import HOOK
from driving import NOON, Api, at_rest, settings_for
from portico.contract.events import delivered
from portico.domain.audit import OPERATOR
from portico.domain.times import DAY, HOUR, MINUTE, SECOND
from portico.domain.webhooks import LONGEST_RETRY_AFTER
from portico.jobs.deliveries import CLAIM_SECONDS, Deliver
from portico.services.webhooks import create_webhook
from portico.storage.deliveries import Attempt

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


async def queue(
    api: Api, webhook_id: int, again_after: int = 0, ahead: int = 0, status: int | None = 503
) -> int:
    """Queues a delivery now, or notes that it is tried again so long after its first attempt, which
    was noted by a clock that was ahead. Returns its id."""
    async with api.live.db.transaction() as tx:
        await api.live.deliveries.add(tx, api.clock(), [(webhook_id, 1, "product.created")])
        (newest,) = await tx.all("SELECT max(id) FROM deliveries")
        if again_after:
            due = api.clock() + ahead + again_after
            attempt = Attempt(newest[0], "pending", due, status, "it failed", 1, None)
            await api.live.deliveries.done(tx, [attempt])
    return int(newest[0])


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


@pytest.mark.parametrize("status", [500, None], ids=["answered", "silent"])
async def test_what_was_tried_while_the_clock_was_ahead_is_due_soon(
    api: Api, webhook_id: int, status: int | None
) -> None:
    await queue(api, webhook_id, 5 * SECOND, ahead=60 * DAY, status=status)
    deliver = process(api)
    await run(api, deliver)
    assert await due(api) == [SOON]
    await deliver.close()


async def test_what_had_no_answer_waits_no_longer_than_its_attempt_wants(
    api: Api, webhook_id: int
) -> None:
    await queue(api, webhook_id, 6 * SECOND, ahead=MINUTE, status=None)
    await queue(api, webhook_id, 6 * SECOND, ahead=MINUTE + 1, status=None)
    deliver = process(api)
    await run(api, deliver)
    assert await due(api) == [NOON + MINUTE + 6 * SECOND, SOON]
    await deliver.close()


async def test_what_an_answer_may_have_asked_for_is_waited_for(api: Api, webhook_id: int) -> None:
    longest = LONGEST_RETRY_AFTER * SECOND
    await queue(api, webhook_id, longest)
    deliver = process(api)
    await run(api, deliver)
    assert await due(api) == [NOON + longest]
    await deliver.close()


async def test_what_was_claimed_while_the_clock_was_ahead_is_due_soon(
    api: Api, webhook_id: int
) -> None:
    queued = await queue(api, webhook_id)
    async with api.live.db.transaction() as tx:
        await api.live.deliveries.release(tx, [queued], NOON + DAY)
    deliver = process(api)
    await run(api, deliver)
    assert await due(api) == [SOON]
    await deliver.close()
