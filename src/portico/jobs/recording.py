"""Stores the outcomes of deliveries, many at a time, and updates or disables their webhooks."""

import asyncio
import logging

import msgspec

from portico.domain import retries
from portico.domain.audit import SYSTEM
from portico.domain.errors import Unavailable
from portico.domain.times import DAY
from portico.domain.webhooks import (
    FAILING,
    FAILING_DAYS,
    LONGEST_RETRY_AFTER,
    PING,
    RECEIVER_GONE,
    Delivery,
    Webhook,
)
from portico.jobs.queue import CLOSE_SECONDS, DATABASE_RETRY_SECONDS
from portico.services.environment import Environment
from portico.services.webhooks import disable_webhook
from portico.storage.bell import Listener
from portico.storage.database import Contended
from portico.storage.deliveries import Attempt, Deliveries
from portico.storage.webhooks import Webhooks

GONE = 410

log = logging.getLogger(__name__)


class Ended(msgspec.Struct, frozen=True):
    """A finished attempt; `delivery` is as it was before."""

    webhook: Webhook
    delivery: Delivery
    attempt: Attempt


def next_try(env: Environment, delivery: Delivery, retry_after: int | None = None) -> int | None:
    """When a delivery is tried again after another failed attempt; None if never."""
    if delivery.type == PING:
        return None
    chance = int.from_bytes(env.random(4)) / 2**32
    least = min(retry_after or 0, LONGEST_RETRY_AFTER)
    attempts = delivery.attempts + 1
    return retries.DELIVERIES.next(env.clock(), attempts, chance=chance, at_least=least)


class Recorder:
    """Stores the outcomes of one process's attempts."""

    def __init__(self, env: Environment, bell: Listener) -> None:
        """`bell` is rung when a webhook is disabled."""
        self._env = env
        self._bell = bell
        self._done: list[Ended] = []
        self._task: asyncio.Task[None] | None = None
        self.is_behind = False
        """Whether the outcomes of some attempts could not be stored yet."""

    async def close(self) -> None:
        """Waits a little for outcomes that are being stored, then cancels that."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            self._task.cancel()

    def note(self, ended: Ended) -> None:
        """Stores the outcome of an attempt in the background, together with others that end
        meanwhile."""
        self._done.append(ended)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._record())

    async def _record(self) -> None:
        alone = 0
        """How many of the next outcomes are stored one by one, since one of them cannot be."""
        while self._done:
            count = 1 if alone else len(self._done)
            done, self._done = self._done[:count], self._done[count:]
            try:
                await self._store(done)
            except (Unavailable, Contended):
                self._done = done + self._done
                self.is_behind = True
                await asyncio.sleep(DATABASE_RETRY_SECONDS)
                continue
            except Exception:  # the others must neither wait for the faulty one nor be sent again
                if count > 1:
                    self._done, alone = done + self._done, count
                    continue
                log.exception("the outcome of delivery %d cannot be stored", done[0].delivery.id)
                done = []
            alone = max(alone - 1, 0)
            self.is_behind = False
            for ended in done:
                await self._disable_if_failing(ended)

    async def _store(self, done: list[Ended]) -> None:
        for place, ended in enumerate(done):
            if ended.attempt.last_status == GONE:  # there is no later attempt to act on it
                done[place] = await self._disable_gone(ended)
        works = {one.webhook.id for one in done if one.attempt.status == "delivered"}
        fails = {one.webhook.id for one in done if one.delivery.type != PING} - works
        async with self._env.db.transaction() as tx:
            for webhook_id in sorted(works | fails):
                if webhook_id in works:
                    await self._env[Webhooks].begin_anew(tx, webhook_id)
                else:
                    await self._env[Webhooks].fails(tx, webhook_id, self._env.clock())
            await self._env[Deliveries].done(tx, [one.attempt for one in done])

    async def _disable_gone(self, ended: Ended) -> Ended:
        """Disables the webhook of a receiver that answered 410 Gone. If the webhook's URL was
        changed meanwhile, the delivery is tried again at the new one."""
        webhook, attempt = ended.webhook, ended.attempt
        if await self._disable(webhook, RECEIVER_GONE, attempt):
            return ended
        now, again = await self._env[Webhooks].get(webhook.id), next_try(self._env, ended.delivery)
        if now is None or not now.enabled or now.url == webhook.url or again is None:
            return ended
        attempt = msgspec.structs.replace(attempt, status="pending", next_attempt_at=again)
        return Ended(webhook, ended.delivery, attempt)

    async def _disable_if_failing(self, ended: Ended) -> None:
        """Disables a webhook whose deliveries have all failed for `FAILING_DAYS`."""
        since = ended.webhook.failing_since
        long = since and self._env.clock() - since >= FAILING_DAYS * DAY
        if not long or not ended.delivery.attempts or ended.attempt.status == "delivered":
            return
        try:
            await self._disable(ended.webhook, FAILING)
        except Unavailable:  # the next attempt leads here again
            pass
        except Exception:  # the others must not wait for this one
            log.exception("webhook %d could not be disabled", ended.webhook.id)

    async def _disable(self, webhook: Webhook, reason: str, attempt: Attempt | None = None) -> bool:
        disabled = await disable_webhook(self._env, webhook, reason, SYSTEM, attempt)
        if disabled:
            self._bell.hear()
        return disabled
