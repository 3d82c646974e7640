"""Making deliveries of events: one for each webhook that wants to be told."""

from collections.abc import Sequence

import msgspec

from portico.domain.audit import SYSTEM
from portico.domain.webhooks import Webhook, covered
from portico.services.change import Change
from portico.services.environment import Environment
from portico.storage.events import ToTell

DELIVERIES_AT_ONCE = 500
"""Queued in one transaction at most: 7 ms of SQLite's event loop."""


async def fan_out(env: Environment, webhooks: Sequence[Webhook]) -> None:
    """Queues a delivery of every event that one of these webhooks was not told of yet and wants to
    be told.

    Any process may do it: up to which event a webhook was told stands in its row, and moves with
    what is queued.
    """
    last = await env.events.last_id()
    behind = [one.told_up_to for one in webhooks if one.enabled and one.told_up_to < last]
    after = min(behind, default=last)
    while after < last:
        after = await _batch(env, after, {one.id for one in webhooks}) or last


async def _batch(env: Environment, after: int, ids: set[int]) -> int:
    """Tells these webhooks of some events after the one with this number; returns the number of the
    last, 0 where none is kept."""
    events = await env.events.to_tell(after, DELIVERIES_AT_ONCE // len(ids))
    if not events:
        return 0
    last = events[-1].id

    async def work(change: Change) -> None:
        # Locked, and read again: another process may have been quicker.
        behind = await env.webhooks.behind(change.tx, last)
        webhooks = [webhook for webhook in behind if webhook.id in ids]
        types = {webhook.id: covered(webhook.types) for webhook in webhooks}
        told = [
            (webhook.id, event.id, event.type)
            for event in events
            for webhook in webhooks
            if event.id > webhook.told_up_to and _wants(webhook, types[webhook.id], event)
        ]
        await env.deliveries.add(change.tx, change.now, told)
        for webhook in webhooks:
            await env.webhooks.told(change.tx, webhook.id, last)
        change.told_elsewhere()

    await env.change(SYSTEM, work)
    return last


async def tell_so_far(env: Environment, change: Change, webhook: Webhook) -> None:
    """Queues what has happened so far for a locked webhook as it is now, of which it was not told
    yet: another as which it is stored again is told what happens from then on."""
    types = covered(webhook.types)
    after, last = webhook.told_up_to, await env.events.settled_in(change.tx)
    while events := await env.events.to_tell(after, DELIVERIES_AT_ONCE, change.tx):
        told = [(webhook.id, one.id, one.type) for one in events if _wants(webhook, types, one)]
        await env.deliveries.add(change.tx, change.now, told)
        after = events[-1].id
    await env.webhooks.told(change.tx, webhook.id, max(after, last))


class _Ping(msgspec.Struct):
    """What the event of a test says."""

    webhook_id: int


_ping = msgspec.json.Decoder(_Ping)


def _wants(webhook: Webhook, types: frozenset[str], event: ToTell) -> bool:
    if event.ping is not None:
        return _ping.decode(event.ping).webhook_id == webhook.id
    return event.type in types
