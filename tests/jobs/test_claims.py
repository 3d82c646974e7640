"""What is claimed of a queue: no more than there is room for, however the database plans it.

Where the statistics take a table for one of a single row, as after a quiet night, PostgreSQL would
look for what is claimed once for each row of the table.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from driving import Api, at_rest, settings_for
from portico.domain.audit import OPERATOR
from portico.domain.webhooks import BY_HAND, Webhook
from portico.services.webhooks import create_webhook, disable_webhook
from portico.storage.expiry import BATCH


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The stores, without jobs of their own."""
    async with at_rest(settings_for(tmp_path, environ)) as api:
        yield api


async def counted(api: Api, table: str) -> None:
    """The database takes note of what the table has."""
    async with api.live.db.transaction() as tx:
        await tx.script(f"ANALYZE {table}")


async def add_mails(api: Api, count: int) -> None:
    async with api.live.db.transaction() as tx:
        for _ in range(count):
            await api.live.mails.add(tx, b"sealed", api.clock())


async def add_deliveries(api: Api, webhook: Webhook, count: int) -> None:
    told = [(webhook.id, 1, "product.created")]
    async with api.live.db.transaction() as tx:
        await api.live.deliveries.add(tx, api.clock(), told * count)


async def hooked(api: Api, path: str) -> Webhook:
    values = {"url": f"https://example.com/{path}", "types": ("*",), "description": ""}
    return (await create_webhook(api.live, values, OPERATOR)).webhook


async def test_no_more_mails_are_claimed_than_there_is_room_for(api: Api) -> None:
    await add_mails(api, 1)
    await counted(api, "mails")
    await add_mails(api, 5)
    now = api.clock()
    claims = []
    for _ in range(2):
        async with api.live.db.transaction() as tx:
            until = now + 60_000
            claims.append(await api.live.mails.queue.claim(tx, [({}, 4)], now=now, until=until))
    assert [len(claimed) for claimed in claims] == [4, 2]


async def test_no_more_deliveries_are_claimed_than_there_is_room_for(api: Api) -> None:
    one, other = await hooked(api, "one"), await hooked(api, "other")
    await add_deliveries(api, one, 1)
    await counted(api, "deliveries")
    await add_deliveries(api, one, 5)
    await add_deliveries(api, other, 5)
    now = api.clock()
    claimed = []
    for _ in range(2):
        async with api.live.db.transaction() as tx:
            due = await api.live.deliveries.claim(
                tx, [(one, 4), (other, 3)], now=now, until=now + 60_000
            )
        ids = [delivery.webhook_id for delivery in due]
        claimed.append((ids.count(one.id), ids.count(other.id)))
    assert claimed == [(4, 3), (2, 2)]


async def test_no_more_deliveries_are_given_up_at_once_than_in_a_batch(api: Api) -> None:
    webhook = await hooked(api, "one")
    await add_deliveries(api, webhook, 1)
    await counted(api, "deliveries")
    await add_deliveries(api, webhook, BATCH)
    assert await disable_webhook(api.live, webhook, BY_HAND, OPERATOR)
    disabled = await api.live.webhooks.get(webhook.id)
    assert disabled is not None
    for more, left in ((True, 1), (False, 0)):
        async with api.live.db.transaction() as tx:
            assert await api.live.deliveries.drop(tx, disabled) is more
        row = await api.live.db.one("SELECT count(*) FROM deliveries WHERE status = 'pending'")
        assert row == (left,)
