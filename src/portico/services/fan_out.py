"""Queues deliveries of events: one for each webhook that wants the event."""

from collections.abc import Sequence

import msgspec

from portico.domain.audit import SYSTEM
from portico.domain.webhooks import Webhook, covered
from portico.services.change import Change
from portico.services.environment import Environment
from portico.storage.deliveries import Deliveries
from portico.storage.events import Events, ToTell
from portico.storage.webhooks import Webhooks

DELIVERIES_AT_ONCE = 500
"""The most deliveries queued in one transaction: on SQLite that takes 7 ms of the event loop."""


async def fan_out(env: Environment, webhooks: Sequence[Webhook]) -> None:
    """Queues a delivery of every new event that one of these webhooks wants.

    Any process may do this: a webhook's row says up to which event deliveries were queued, and is
    updated in the same transaction.
    """
    last = await env[Events].last_id()
    behind = [one.told_up_to for one in webhooks if one.enabled and one.told_up_to < last]
    after = min(behind, default=last)
    while after < last:
        after = await _batch(env, after, {one.id for one in webhooks}) or last


async def _batch(env: Environment, after: int, ids: set[int]) -> int:
    """Queues deliveries of some events with an id above `after`; returns the id of the last, or 0
    if there are none."""
    events = await env[Events].to_tell(after, DELIVERIES_AT_ONCE // len(ids))
    if not events:
        return 0
    last = events[-1].id

    async def work(change: Change) -> None:
        # Read again under a lock: another process may have queued them already.
        behind = await env[Webhooks].behind(change.tx, last)
        webhooks = [webhook for webhook in behind if webhook.id in ids]
        types = {webhook.id: covered(webhook.types) for webhook in webhooks}
        told = [
            (webhook.id, event.id, event.type)
            for event in events
            for webhook in webhooks
            if event.id > webhook.told_up_to and _wants(webhook, types[webhook.id], event)
        ]
        await env[Deliveries].add(change.tx, change.now, told)
        for webhook in webhooks:
            await env[Webhooks].told(change.tx, webhook.id, last)
        change.noted_elsewhere()

    await env.change(SYSTEM, work)
    return last


async def queue_so_far(env: Environment, change: Change, webhook: Webhook) -> None:
    """Queues all events so far for a locked webhook, before its types change: the new types apply
    to later events."""
    types = covered(webhook.types)
    after, last = webhook.told_up_to, await env[Events].settled_in(change.tx)
    while events := await env[Events].to_tell(after, DELIVERIES_AT_ONCE, change.tx):
        told = [(webhook.id, one.id, one.type) for one in events if _wants(webhook, types, one)]
        await env[Deliveries].add(change.tx, change.now, told)
        after = events[-1].id
    await env[Webhooks].told(change.tx, webhook.id, max(after, last))


class _Ping(msgspec.Struct):
    """The payload of the event of a test."""

    webhook_id: int


_ping = msgspec.json.Decoder(_Ping)


def _wants(webhook: Webhook, types: frozenset[str], event: ToTell) -> bool:
    if event.ping is not None:
        return _ping.decode(event.ping).webhook_id == webhook.id
    return event.type in types
