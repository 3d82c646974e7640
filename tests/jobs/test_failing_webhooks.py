"""Webhooks are disabled after five days in which attempts failed, not after five in which nothing
was tried."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from driving import NOON, Api
from jobs.conftest import FAULT, LAMP, all_tried, became, hook
from operating import eventually
from portico.core.times import DAY
from portico.features.events.storage import Deliveries, Webhooks
from receiving import Receiver, receiving


@pytest.fixture
async def broken() -> AsyncIterator[Receiver]:
    """A receiver that takes nothing."""
    async with receiving(Receiver(FAULT)) as receiver:
        yield receiver


async def failing_since(api: Api) -> int | None:
    (webhook,) = await api.live[Webhooks].all()
    assert webhook.enabled
    return webhook.failing_since


async def fails_since(api: Api, at: int) -> None:
    """Waits until a webhook is noted to fail since then."""

    async def is_noted() -> bool:
        return await failing_since(api) == at

    await eventually(is_noted, "the failure")


@pytest.mark.one_engine
async def test_a_new_url_has_five_days_of_its_own(api: Api, broken: Receiver) -> None:
    admin = await api.caller("admin")
    made = await hook(admin, broken, "product.*")
    await admin.post("/products", json=LAMP)
    await all_tried(admin, made, 1)
    await fails_since(api, NOON)
    path = f"/webhooks/{made['id']}"
    await admin.patch(path, json={"description": "Elsewhere soon"})
    assert await failing_since(api) == NOON
    await admin.patch(path, json={"url": f"{made['url']}/new"})
    assert await failing_since(api) is None


@pytest.mark.one_engine
async def test_the_first_attempt_of_a_delivery_disables_nothing(api: Api, broken: Receiver) -> None:
    admin = await api.caller("admin")
    made = await hook(admin, broken, "product.*")
    async with api.live.db.transaction() as tx:
        await api.live[Webhooks].fails(tx, made["id"], NOON)
    api.clock.advance(days=6)
    for count in (1, 2):  # what came of the first is judged before the second is noted
        await admin.post("/products", json=LAMP | {"name": f"Lamp {count}"})
        await all_tried(admin, made, count)
    listed = await api.live[Deliveries].latest(made["id"], None, 9)
    assert [one.status for one in listed] == ["pending", "pending"]
    assert await failing_since(api) == NOON
    api.clock.advance(seconds=6)
    api.live.db.signal.notify()
    assert (await became(admin, made, "disabled"))["disabled_reason"] == "failing"


async def two_failed(api: Api, broken: Receiver) -> dict[str, Any]:
    """A webhook that fails since noon, with two deliveries."""
    admin = await api.caller("admin")
    made = await hook(admin, broken, "product.*")
    for count in (1, 2):
        await admin.post("/products", json=LAMP | {"name": f"Lamp {count}"})
        await all_tried(admin, made, count)
    await fails_since(api, NOON)
    return made


async def test_days_in_which_no_server_ran_do_not_count(api: Api, broken: Receiver) -> None:
    made = await two_failed(api, broken)
    await api.stop()
    api.clock.advance(days=6)
    await api.start()
    await broken.got(4)
    await fails_since(api, NOON + 6 * DAY)
    listed = await api.live[Deliveries].latest(made["id"], None, 9)
    assert [one.status for one in listed] == ["pending", "pending"]
