"""Use cases of webhooks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from portico.change import Change
from portico.core.audit import SYSTEM, Author
from portico.core.errors import BrokenRule, Conflict, Fault, Gone, NotFound, invalid
from portico.core.events import (
    BY_HAND,
    FAILING,
    FAILING_DAYS,
    MOST_WEBHOOKS,
    RECEIVER_GONE,
    Delivery,
    Webhook,
    covers,
)
from portico.core.secrets import ROTATION_OVERLAP
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.events.rules import (
    WebhookChanged,
    WebhookCreated,
    WebhookDeleted,
    WebhookDisabled,
    WebhookEnabled,
    WebhookRedelivered,
    WebhookSecretRotated,
    WebhookTested,
    mint_webhook_secret,
)
from portico.features.events.storage import Deliveries, DeliveryAttempt, Events, ToTell, Webhooks
from portico.features.mail.letters import Kind, notify
from portico.features.people.storage import Users

DELIVERIES_AT_ONCE = 500
"""The most deliveries queued in one transaction: on SQLite that takes 7 ms of the event loop."""


async def fan_out(env: Environment, webhooks: Sequence[Webhook]) -> None:
    """Queues a delivery of every new event that one of these webhooks wants.

    Any process may do this: a webhook's row says up to which event deliveries were queued, and is
    updated in the same transaction.
    """
    last = await env[Events].last_id()
    behind = [one.queued_up_to for one in webhooks if one.enabled and one.queued_up_to < last]
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
        due = [
            (webhook.id, event.id, event.type)
            for event in events
            for webhook in webhooks
            if event.id > webhook.queued_up_to and _wants(webhook, event)
        ]
        await env[Deliveries].add(change.tx, change.now, due)
        for webhook in webhooks:
            await env[Webhooks].served(change.tx, webhook.id, last)
        change.noted_elsewhere()

    await env.change(SYSTEM, work)
    return last


async def queue_so_far(env: Environment, change: Change, webhook: Webhook) -> None:
    """Queues all events so far for a locked webhook, before its types change: the new types apply
    to later events."""
    after, last = webhook.queued_up_to, await env[Events].numbered_in(change.tx)
    while events := await env[Events].to_tell(after, DELIVERIES_AT_ONCE, change.tx):
        due = [(webhook.id, one.id, one.type) for one in events if _wants(webhook, one)]
        await env[Deliveries].add(change.tx, change.now, due)
        after = events[-1].id
    await env[Webhooks].served(change.tx, webhook.id, max(after, last))


class _Ping(msgspec.Struct):
    """The payload of the event of a test."""

    webhook_id: int


_ping = msgspec.json.Decoder(_Ping)


def _wants(webhook: Webhook, event: ToTell) -> bool:
    if event.ping is not None:
        return _ping.decode(event.ping).webhook_id == webhook.id
    return covers(webhook.types, event.type)


SEALED_AS = "webhook"

Check = Callable[[Webhook], None]
"""Checks `If-Match` against the stored webhook. Raises `PreconditionFailed`."""


class Signing(NamedTuple):
    """A webhook and its new secret, which is stored encrypted."""

    webhook: Webhook
    secret: str


def _missing(webhook_id: int) -> NotFound:
    return NotFound(f"There is no webhook {webhook_id}.")


async def read_webhook(env: Environment, webhook_id: int) -> Webhook:
    """The webhook. Raises `NotFound`."""
    webhook = await env[Webhooks].get(webhook_id)
    if webhook is None:
        raise _missing(webhook_id)
    return webhook


async def create_webhook(env: Environment, values: dict[str, Any], by: Author) -> Signing:
    """Creates a webhook. `values` are validated fields of `Webhook`. It gets events from now on.
    Raises `Invalid` for a URL that leads to an internal address, and `Conflict` for more than
    `MOST_WEBHOOKS`."""
    _check_url(env, values)
    secret = mint_webhook_secret(env.random)
    sealed = _sealed(env, secret)

    async def work(change: Change) -> Webhook:
        if await env[Webhooks].count(change.tx) >= MOST_WEBHOOKS:
            raise Conflict(f"There are already {MOST_WEBHOOKS} webhooks; delete one first.")
        webhook = Webhook(
            id=0,
            disabled_reason=None,
            secret=sealed,
            former_secret=None,
            former_until=None,
            queued_up_to=await env[Events].numbered_in(change.tx),
            dropped_up_to=0,
            failing_since=None,
            created_at=change.now,
            updated_at=change.now,
            **values,
        )
        webhook = await env[Webhooks].insert(change.tx, webhook)
        change.note(WebhookCreated(webhook))
        return webhook

    return Signing(await env.change(by, work), secret)


async def change_webhook(
    env: Environment,
    webhook_id: int,
    values: dict[str, Any],
    by: Author,
    check: Check = lambda _: None,
) -> Webhook:
    """Changes a webhook's values. Setting `enabled` to false drops pending deliveries; a webhook
    that is enabled again, or whose `types` are changed, gets matching events from then on. Raises
    `NotFound`, `Invalid` and what `check` raises."""
    _check_url(env, values)
    changes = dict(values)
    enabled = changes.pop("enabled", None)

    async def work(change: Change) -> Webhook:
        before = await _locked(env, change, webhook_id)
        check(before)
        after = msgspec.structs.replace(before, **changes)
        if after != before:
            change.note(WebhookChanged(after, before))
        if after.url != before.url:
            await env[Webhooks].begin_anew(change.tx, webhook_id)
        if after.types != before.types and before.enabled:
            await queue_so_far(env, change, before)
        if enabled is not None and enabled != before.enabled:
            after = await _switched(env, change, after, None if enabled else BY_HAND)
        elif after == before:
            return before
        after = msgspec.structs.replace(after, updated_at=change.now)
        await env[Webhooks].update(change.tx, after)
        return after

    if "types" in changes:
        seen = await read_webhook(env, webhook_id)
        if seen.enabled and seen.types != changes["types"]:
            await fan_out(env, [seen])  # in batches, so that the change has little left to do
    webhook = await env.change(by, work)
    env.db.signal.notify()
    return webhook


async def disable_webhook(
    env: Environment, seen: Webhook, reason: str, by: Author, attempt: DeliveryAttempt | None = None
) -> bool:
    """Disables a webhook for this reason, which was found for the webhook as `seen`, and tells the
    admins by mail. Also stores the `attempt` that gave the reason, if given. Returns False, and
    changes nothing, if the webhook is already disabled or deleted, has another URL, or works by
    now."""
    admins = await env[Users].admins()
    kind: Kind = "webhook-gone" if reason == RECEIVER_GONE else "webhook-failing"
    page = f"{env.addresses.dashboard}/webhooks/{seen.id}"

    async def work(change: Change) -> bool:
        before = await change.lock(env[Webhooks], seen.id)
        if before is None or not before.enabled or before.url != seen.url:
            return False
        if reason == FAILING and before.failing_since != seen.failing_since:
            return False
        after = await _switched(env, change, before, reason)
        after = msgspec.structs.replace(after, updated_at=change.now)
        await env[Webhooks].update(change.tx, after)
        if attempt is not None:
            await env[Deliveries].done(change.tx, [attempt])
        for admin in admins:
            await notify(
                *(env, change, admin, kind),
                id=str(seen.id),
                url=after.url,
                days=str(FAILING_DAYS),
                page=page,
            )
        return True

    return await env.change(by, work)


async def _switched(
    env: Environment, change: Change, webhook: Webhook, reason: str | None
) -> Webhook:
    """Disables a webhook for a reason, or enables it if that is None; returns what to store."""
    webhook = msgspec.structs.replace(webhook, disabled_reason=reason)
    if reason is not None:
        dropped = await env[Deliveries].last_of(change.tx, webhook.id)
        webhook = msgspec.structs.replace(webhook, dropped_up_to=dropped)
        change.note(WebhookDisabled(webhook))
    else:
        last = await env[Events].numbered_in(change.tx)
        await env[Webhooks].served(change.tx, webhook.id, last)
        await env[Webhooks].begin_anew(change.tx, webhook.id)
        change.note(WebhookEnabled(webhook))
    return webhook


async def rotate_secret(env: Environment, webhook_id: int, by: Author) -> Signing:
    """Gives a webhook a new secret. The old one also signs for 24 hours, if it can be decrypted.
    Raises `NotFound`."""
    secret = mint_webhook_secret(env.random)
    sealed = _sealed(env, secret)

    async def work(change: Change) -> Webhook:
        webhook = await _locked(env, change, webhook_id)
        is_readable = decrypted(env, webhook.secret) is not None
        webhook = msgspec.structs.replace(
            webhook,
            secret=sealed,
            former_secret=webhook.secret if is_readable else None,
            former_until=change.now + ROTATION_OVERLAP,
            updated_at=change.now,
        )
        await env[Webhooks].update(change.tx, webhook)
        change.note(WebhookSecretRotated(webhook))
        return webhook

    return Signing(await env.change(by, work), secret)


async def delete_webhook(
    env: Environment, webhook_id: int, by: Author, check: Check = lambda _: None
) -> None:
    """Deletes a webhook; nothing more is sent to it. Raises `NotFound` and what `check` raises."""

    async def work(change: Change) -> None:
        webhook = await _locked(env, change, webhook_id)
        check(webhook)
        await env[Webhooks].delete(change.tx, webhook_id)
        change.note(WebhookDeleted(webhook))

    await env.change(by, work)
    env.db.signal.notify()


async def test_webhook(env: Environment, webhook_id: int, by: Author) -> None:
    """Sends a webhook a `ping` event, which is not listed, once. Raises `NotFound`, and `Conflict`
    if it is disabled."""

    async def work(change: Change) -> None:
        webhook = _enabled(await _locked(env, change, webhook_id))
        change.note(WebhookTested(webhook))

    await env.change(by, work)


async def redeliver(env: Environment, webhook_id: int, delivery_id: int, by: Author) -> None:
    """Queues another delivery of the same event. Raises `NotFound`, `Conflict` if the webhook is
    disabled, and `Gone` if the event is no longer kept."""
    delivery = await read_delivery(env, webhook_id, delivery_id)
    if not await env[Events].some([delivery.event_id]):
        raise Gone(f"The event {delivery.event_id} is no longer kept.")

    async def work(change: Change) -> None:
        webhook = _enabled(await _locked(env, change, webhook_id))
        due = [(webhook.id, delivery.event_id, delivery.type)]
        await env[Deliveries].add(change.tx, change.now, due)
        await env[Deliveries].notify(change.tx)
        change.note(WebhookRedelivered(webhook, delivery.event_id))

    await env.change(by, work)
    env.db.signal.notify()


async def read_delivery(env: Environment, webhook_id: int, delivery_id: int) -> Delivery:
    """A webhook's delivery. Raises `NotFound`."""
    await read_webhook(env, webhook_id)
    delivery = await env[Deliveries].get(webhook_id, delivery_id)
    if delivery is None:
        raise NotFound(f"There is no delivery {delivery_id} of webhook {webhook_id}.")
    return delivery


def decrypted(env: Environment, sealed: bytes) -> str | None:
    """Decrypts a webhook's secret; None if another installation's secret sealed it."""
    secret = env[Vault].open(sealed, SEALED_AS)
    return None if secret is None else secret.decode()


def _sealed(env: Environment, secret: str) -> bytes:
    return env[Vault].seal(secret.encode(), SEALED_AS)


def url_faults(env: Environment, values: Mapping[str, Any]) -> list[Fault]:
    """The faults of a new or changed webhook that depend on where deliveries may go."""
    url = values.get("url")
    if url is not None:
        try:
            env.destinations.check_url(url)
        except BrokenRule as error:
            return [Fault("url", str(error))]
    return []


def _check_url(env: Environment, values: Mapping[str, Any]) -> None:
    if faults := url_faults(env, values):
        raise invalid(*faults)


async def _locked(env: Environment, change: Change, webhook_id: int) -> Webhook:
    webhook = await change.lock(env[Webhooks], webhook_id)
    if webhook is None:
        raise _missing(webhook_id)
    return webhook


def _enabled(webhook: Webhook) -> Webhook:
    if not webhook.enabled:
        raise Conflict("This webhook is disabled; enable it first.")
    return webhook
