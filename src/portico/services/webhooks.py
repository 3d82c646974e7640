"""Use cases of webhooks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from portico.domain.audit import By
from portico.domain.errors import BrokenRule, Conflict, Fault, Gone, NotFound, invalid
from portico.domain.events.webhooks import (
    WebhookChanged,
    WebhookCreated,
    WebhookDeleted,
    WebhookDisabled,
    WebhookEnabled,
    WebhookRedelivered,
    WebhookSecretRotated,
    WebhookTested,
)
from portico.domain.secrets import ROTATION_OVERLAP
from portico.domain.webhook_signing import mint_webhook_secret
from portico.domain.webhooks import (
    BY_HAND,
    FAILING,
    MOST_WEBHOOKS,
    Delivery,
    Webhook,
)
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.fan_out import fan_out, tell_so_far
from portico.services.webhook_mail import tell_admins
from portico.storage.deliveries import Attempt

SEALED_AS = "webhook"

Check = Callable[[Webhook], None]
"""Raises `PreconditionFailed` where the caller expected the webhook to be another."""


class Signing(NamedTuple):
    """A webhook and its new secret, which is not kept in the clear."""

    webhook: Webhook
    secret: str


def _missing(webhook_id: int) -> NotFound:
    return NotFound(f"There is no webhook {webhook_id}.")


async def read_webhook(env: Environment, webhook_id: int) -> Webhook:
    """The webhook. Raises `NotFound`."""
    webhook = await env.webhooks.get(webhook_id)
    if webhook is None:
        raise _missing(webhook_id)
    return webhook


async def create_webhook(env: Environment, values: dict[str, Any], by: By) -> Signing:
    """Makes a webhook of these values, which its rules have passed. It is told what happens from
    then on. Raises `Invalid` for a URL that leads inside, and `Conflict` for one too many."""
    _check_url(env, values)
    secret = mint_webhook_secret(env.random)
    sealed = _sealed(env, secret)

    async def work(change: Change) -> Webhook:
        if await env.webhooks.count(change.tx) >= MOST_WEBHOOKS:
            raise Conflict(f"There are {MOST_WEBHOOKS} webhooks, the most there can be.")
        webhook = Webhook(
            id=0,
            disabled_reason=None,
            secret=sealed,
            former_secret=None,
            former_until=None,
            told_up_to=await env.events.settled_in(change.tx),
            dropped_up_to=0,
            failing_since=None,
            created_at=change.now,
            updated_at=change.now,
            **values,
        )
        webhook = await env.webhooks.insert(change.tx, webhook)
        change.note(WebhookCreated(webhook))
        return webhook

    return Signing(await env.change(by, work), secret)


async def change_webhook(
    env: Environment,
    webhook_id: int,
    values: dict[str, Any],
    by: By,
    check: Check = lambda _: None,
) -> Webhook:
    """Changes a webhook's values. `enabled` says whether anything is sent to it: disabling drops
    what is pending, and enabled again it is told what happens from then on; so it is with `types`.
    Raises `NotFound`, `Invalid` and what `check` does."""
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
            await env.webhooks.begin_anew(change.tx, webhook_id)
        if after.types != before.types and before.enabled:
            await tell_so_far(env, change, before)
        if enabled is not None and enabled != before.enabled:
            after = await _switched(env, change, after, None if enabled else BY_HAND)
        elif after == before:
            return before
        after = msgspec.structs.replace(after, updated_at=change.now)
        await env.webhooks.update(change.tx, after)
        return after

    if "types" in changes:
        seen = await read_webhook(env, webhook_id)
        if seen.enabled and seen.types != changes["types"]:
            await fan_out(env, [seen])  # in parts, so that little is left to the change
    webhook = await env.change(by, work)
    env.db.bell.ring()
    return webhook


async def disable_webhook(
    env: Environment, seen: Webhook, reason: str, by: By, attempt: Attempt | None = None
) -> bool:
    """Disables a webhook for this reason, which was found as it was `seen`, and tells the admins by
    mail; notes with it what came of the `attempt` that told the reason, if nothing tells it again.
    False, and nothing was noted, where somebody else has, or deleted it, or it leads elsewhere or
    works by now."""
    admins = await env.users.admins()

    async def work(change: Change) -> bool:
        before = await change.lock(env.webhooks, seen.id)
        if before is None or not before.enabled or before.url != seen.url:
            return False
        if reason == FAILING and before.failing_since != seen.failing_since:
            return False
        after = await _switched(env, change, before, reason)
        after = msgspec.structs.replace(after, updated_at=change.now)
        await env.webhooks.update(change.tx, after)
        if attempt is not None:
            await env.deliveries.done(change.tx, [attempt])
        await tell_admins(env, change, admins, after, reason)
        return True

    return await env.change(by, work)


async def _switched(
    env: Environment, change: Change, webhook: Webhook, reason: str | None
) -> Webhook:
    """A webhook that is disabled for a reason, or enabled again without one."""
    webhook = msgspec.structs.replace(webhook, disabled_reason=reason)
    if reason is not None:
        dropped = await env.deliveries.last_of(change.tx, webhook.id)
        webhook = msgspec.structs.replace(webhook, dropped_up_to=dropped)
        change.note(WebhookDisabled(webhook))
    else:
        told = await env.events.settled_in(change.tx)
        await env.webhooks.told(change.tx, webhook.id, told)
        await env.webhooks.begin_anew(change.tx, webhook.id)
        change.note(WebhookEnabled(webhook))
    return webhook


async def rotate_secret(env: Environment, webhook_id: int, by: By) -> Signing:
    """Gives a webhook another secret; the one so far signs beside it for 24 hours, where it can be
    read. Raises `NotFound`."""
    secret = mint_webhook_secret(env.random)
    sealed = _sealed(env, secret)

    async def work(change: Change) -> Webhook:
        webhook = await _locked(env, change, webhook_id)
        is_readable = opened(env, webhook.secret) is not None
        webhook = msgspec.structs.replace(
            webhook,
            secret=sealed,
            former_secret=webhook.secret if is_readable else None,
            former_until=change.now + ROTATION_OVERLAP,
            updated_at=change.now,
        )
        await env.webhooks.update(change.tx, webhook)
        change.note(WebhookSecretRotated(webhook))
        return webhook

    return Signing(await env.change(by, work), secret)


async def delete_webhook(
    env: Environment, webhook_id: int, by: By, check: Check = lambda _: None
) -> None:
    """Removes a webhook; nothing is sent to it any more. Raises `NotFound` and what `check`
    does."""

    async def work(change: Change) -> None:
        webhook = await _locked(env, change, webhook_id)
        check(webhook)
        await env.webhooks.delete(change.tx, webhook_id)
        change.note(WebhookDeleted(webhook))

    await env.change(by, work)
    env.db.bell.ring()


async def test_webhook(env: Environment, webhook_id: int, by: By) -> None:
    """Has a webhook sent a `ping`, which no list shows, once. Raises `NotFound`, and `Conflict`
    where it is disabled."""

    async def work(change: Change) -> None:
        webhook = _enabled(await _locked(env, change, webhook_id))
        change.note(WebhookTested(webhook))

    await env.change(by, work)


async def redeliver(env: Environment, webhook_id: int, delivery_id: int, by: By) -> None:
    """Queues what was delivered, or not, once more. Raises `NotFound`, `Conflict` where the webhook
    is disabled, and `Gone` where the event is no longer kept."""
    delivery = await read_delivery(env, webhook_id, delivery_id)
    if not await env.events.some([delivery.event_id]):
        raise Gone(f"The event {delivery.event_id} is no longer kept.")

    async def work(change: Change) -> None:
        webhook = _enabled(await _locked(env, change, webhook_id))
        told = [(webhook.id, delivery.event_id, delivery.type)]
        await env.deliveries.add(change.tx, change.now, told)
        await env.deliveries.tell(change.tx)
        change.note(WebhookRedelivered(webhook, delivery.event_id))

    await env.change(by, work)
    env.db.bell.ring()


async def read_delivery(env: Environment, webhook_id: int, delivery_id: int) -> Delivery:
    """A webhook's delivery. Raises `NotFound`."""
    await read_webhook(env, webhook_id)
    delivery = await env.deliveries.get(webhook_id, delivery_id)
    if delivery is None:
        raise NotFound(f"There is no delivery {delivery_id} of webhook {webhook_id}.")
    return delivery


def opened(env: Environment, sealed: bytes) -> str | None:
    """A webhook's secret; None where it was sealed by another installation's."""
    secret = env.vault.open(sealed, SEALED_AS)
    return None if secret is None else secret.decode()


def _sealed(env: Environment, secret: str) -> bytes:
    return env.vault.seal(secret.encode(), SEALED_AS)


def _check_url(env: Environment, values: dict[str, Any]) -> None:
    if "url" in values:
        try:
            env.destinations.check_url(values["url"])
        except BrokenRule as error:
            raise invalid(Fault("url", str(error))) from error


async def _locked(env: Environment, change: Change, webhook_id: int) -> Webhook:
    webhook = await change.lock(env.webhooks, webhook_id)
    if webhook is None:
        raise _missing(webhook_id)
    return webhook


def _enabled(webhook: Webhook) -> Webhook:
    if not webhook.enabled:
        raise Conflict("This webhook is disabled; enable it first.")
    return webhook
