"""What was pending when its webhook was disabled stays given up."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from driving import Api, at_rest, settings_for
from portico.core.audit import OPERATOR
from portico.core.webhooks import BY_HAND, DROPPED, Webhook
from portico.features.events.storage import Deliveries, DeliveryAttempt, Webhooks
from portico.features.events.webhooks import create_webhook, disable_webhook


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The stores, without jobs of their own."""
    async with at_rest(settings_for(tmp_path, environ)) as api:
        yield api


async def disabled_with(api: Api, pending: int) -> tuple[Webhook, int]:
    """A webhook that was disabled with so many deliveries pending; the id of the last of these."""
    env = api.live
    values = {"url": "https://hooks.example.com/in", "types": ("*",), "description": ""}
    webhook = (await create_webhook(env, values, OPERATOR)).webhook
    async with env.db.transaction() as tx:
        await env[Deliveries].add(tx, api.clock(), [(webhook.id, 1, "product.created")] * pending)
        last = await env[Deliveries].last_of(tx, webhook.id)
    assert await disable_webhook(env, webhook, BY_HAND, OPERATOR)
    disabled = await env[Webhooks].get(webhook.id)
    assert disabled is not None
    return disabled, last


async def test_no_attempt_that_was_under_way_brings_back_what_was_given_up(api: Api) -> None:
    env = api.live
    webhook, last = await disabled_with(api, 1)
    async with env.db.transaction() as tx:
        await env[Deliveries].drop(tx, webhook)
    given_up = await env[Deliveries].get(webhook.id, last)
    assert given_up is not None
    assert (given_up.status, given_up.last_error) == ("failed", DROPPED)

    soon = api.clock() + 5_000
    attempt = DeliveryAttempt(last, "pending", soon, 503, "it answered 503", 1, "")
    async with env.db.transaction() as tx:
        await env[Deliveries].done(tx, [attempt])
        await env[Deliveries].queue.move(tx, [last], api.clock())
    assert await env[Deliveries].get(webhook.id, last) == given_up
