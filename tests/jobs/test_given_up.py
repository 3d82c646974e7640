"""What was pending when its webhook was disabled stays given up."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contract.test_webhooks import HOOK
from driving import Api, at_rest, settings_for
from portico.domain.audit import OPERATOR
from portico.domain.webhooks import BY_HAND, DROPPED
from portico.services.webhooks import create_webhook, disable_webhook
from portico.storage.deliveries import Attempt


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The stores, without jobs of their own."""
    async with at_rest(settings_for(tmp_path, environ)) as api:
        yield api


async def test_no_attempt_that_was_under_way_brings_back_what_was_given_up(api: Api) -> None:
    env = api.live
    values = {"url": HOOK["url"], "types": ("*",), "description": ""}
    webhook = (await create_webhook(env, values, OPERATOR)).webhook
    async with env.db.transaction() as tx:
        await env.deliveries.add(tx, api.clock(), [(webhook.id, 1, "product.created")])
        last = await env.deliveries.last_of(tx, webhook.id)
    assert await disable_webhook(env, webhook, BY_HAND, OPERATOR)
    disabled = await env.webhooks.get(webhook.id)
    assert disabled is not None
    async with env.db.transaction() as tx:
        await env.deliveries.drop(tx, disabled)
    given_up = await env.deliveries.get(webhook.id, last)
    assert given_up is not None
    assert (given_up.status, given_up.last_error) == ("failed", DROPPED)

    soon = api.clock() + 5_000
    attempt = Attempt(last, "pending", soon, 503, "it answered 503", 1, "")
    async with env.db.transaction() as tx:
        await env.deliveries.done(tx, [attempt])
        await env.deliveries.release(tx, [last], api.clock())
    assert await env.deliveries.get(webhook.id, last) == given_up
