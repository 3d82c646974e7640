"""Delivers events to webhooks.

Each webhook has a channel of its own, so that one that is slow or dead does not hold up the others.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from portico.core.audit import SYSTEM
from portico.core.errors import Unavailable
from portico.core.events import (
    FAILING,
    FAILING_DAYS,
    LONGEST_RETRY_AFTER,
    PING,
    RECEIVER_GONE,
    Delivery,
    StoredEvent,
    Webhook,
)
from portico.core.times import DAY, SECOND
from portico.data import queue
from portico.data.database import Contended, Waiter
from portico.environment import Environment
from portico.features.events.rules import signed_headers
from portico.features.events.storage import Deliveries, DeliveryAttempt, Events, Webhooks
from portico.features.events.webhooks import decrypted, disable_webhook, fan_out
from portico.jobs.queue import CLOSE_SECONDS, DATABASE_RETRY_SECONDS, Channel, Consumer, Work
from portico.outbound.sender import DeliveryOutcome, Sends

GONE = 410

log = logging.getLogger(__name__)


class FinishedAttempt(msgspec.Struct, frozen=True):
    """A finished attempt; `delivery` is as it was before."""

    webhook: Webhook
    delivery: Delivery
    attempt: DeliveryAttempt


def next_try(env: Environment, delivery: Delivery, retry_after: int | None = None) -> int | None:
    """When a delivery is tried again after another failed attempt; None if never."""
    if delivery.type == PING:
        return None
    chance = int.from_bytes(env.random(4)) / 2**32
    least = min(retry_after or 0, LONGEST_RETRY_AFTER)
    attempts = delivery.attempts + 1
    return queue.DELIVERIES.next(env.clock(), attempts, chance=chance, at_least=least)


class Recorder:
    """Stores the outcomes of one process's attempts."""

    def __init__(self, env: Environment, signal: Waiter) -> None:
        """`signal` is rung when a webhook is disabled."""
        self._env = env
        self._signal = signal
        self._done: list[FinishedAttempt] = []
        self._task: asyncio.Task[None] | None = None
        self.is_behind = False
        """Whether the outcomes of some attempts could not be stored yet."""

    async def close(self) -> None:
        """Waits a little for outcomes that are being stored, then cancels that."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            self._task.cancel()

    def note(self, ended: FinishedAttempt) -> None:
        """Stores the outcome of an attempt in the background, together with others that end
        meanwhile."""
        self._done.append(ended)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._record())

    async def _record(self) -> None:
        while self._done:
            done, self._done = self._done, []
            try:
                await self._store(done)
            except (Unavailable, Contended):
                self._done = done + self._done
                self.is_behind = True
                await asyncio.sleep(DATABASE_RETRY_SECONDS)
                continue
            except Exception:  # later ones must not wait for these, which will be sent again
                log.exception("the outcomes of %d deliveries cannot be stored", len(done))
                done = []
            self.is_behind = False
            for ended in done:
                await self._disable_if_failing(ended)

    async def _store(self, done: list[FinishedAttempt]) -> None:
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

    async def _disable_gone(self, ended: FinishedAttempt) -> FinishedAttempt:
        """Disables the webhook of a receiver that answered 410 Gone. If the webhook's URL was
        changed meanwhile, the delivery is tried again at the new one."""
        webhook, attempt = ended.webhook, ended.attempt
        if await self._disable(webhook, RECEIVER_GONE, attempt):
            return ended
        now, again = await self._env[Webhooks].get(webhook.id), next_try(self._env, ended.delivery)
        if now is None or not now.enabled or now.url == webhook.url or again is None:
            return ended
        attempt = msgspec.structs.replace(attempt, status="pending", next_attempt_at=again)
        return FinishedAttempt(webhook, ended.delivery, attempt)

    async def _disable_if_failing(self, ended: FinishedAttempt) -> None:
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

    async def _disable(
        self, webhook: Webhook, reason: str, attempt: DeliveryAttempt | None = None
    ) -> bool:
        disabled = await disable_webhook(self._env, webhook, reason, SYSTEM, attempt)
        if disabled:
            self._signal.hear()
        return disabled


CLAIM_SECONDS = 30
"""How long a claim lasts: then the delivery of a process that died is due again."""

ATTEMPT_SECONDS = 20
"""How long a claim must last when sending begins: the attempt ends before the claim does."""

AT_ONCE = 16
"""The most deliveries to one webhook that one process sends at the same time."""

QUICK_MILLISECONDS, QUICK_BYTES = 500, 1 << 16
"""A quick delivery takes less time than this, with a body of at most this size. Only webhooks with
quick deliveries get many claimed ahead, since those wait in memory."""

AHEAD = 64
"""The most deliveries to claim for a webhook with quick ones, including waiting ones."""

FAILING_PAUSE_SECONDS = 0.05
"""The pause between two attempts for a webhook whose last one failed: when a receiver dies, a
million deliveries may be due at once, and others must not wait for them."""

BUSY_REQUESTS = 16
"""From this many requests under way in this process on, requests have priority."""

BUSY_SECONDS = 0.1
"""How long requests keep priority afterwards: those that wait for one commit end together, and the
next ones follow at once."""

BUSY_RUN_SECONDS = 0.02
"""While requests have priority: how long to wait for further commits before checking for due
deliveries, since each commit rings the signal on every host."""

BUSY_PAUSE_SECONDS = 0.005
"""While requests have priority: the pause between two deliveries to one webhook, which limits them
to a tenth of a core."""

LATE = DAY
"""If a delivery is due for this long when a server starts, none was running."""

_EVENT_REMOVED = "The event is no longer kept."

_NOT_SENT = DeliveryOutcome(None, "This server cannot decrypt the webhook's secret.", "", 0, None)
"""The outcome if nothing was sent."""


class Deliver:
    """Delivers events to the webhooks of one environment in one process."""

    def __init__(
        self,
        env: Environment,
        sender: Sends,
        encode: Callable[[StoredEvent], bytes],
        user_agent: str,
        requests: Callable[[], int],
        at_once: int = AT_ONCE,
    ) -> None:
        """`encode` returns the body of an event's delivery, the same every time; `requests` returns
        how many requests are under way; `at_once` is the most deliveries to send to one webhook at
        the same time."""
        self._env = env
        self._sender = sender
        self._encode = encode
        self._user_agent = user_agent
        self._requests = requests
        self._at_once = at_once
        self._signal = env.db.signal.listener()
        self._recorder = Recorder(env, self._signal)
        self._consumer = Consumer(
            env,
            env[Deliveries].queue,
            self._signal,
            self._begin,
            claim_seconds=CLAIM_SECONDS,
            attempt_seconds=ATTEMPT_SECONDS,
            pause=lambda: BUSY_PAUSE_SECONDS if self._is_busy() else 0.0,
        )
        self._webhooks: dict[int, Webhook] = {}
        self._channels: dict[int, Channel] = {}
        """By the id of the webhook."""
        self._dropped: dict[int, int] = {}
        self._busy_until = 0.0
        """In the event loop's time."""
        self._looked = False
        """Whether it has looked for what was due before it began."""

    async def run(self) -> None:
        """Waits until there may be something to do, then claims due deliveries and begins to send
        them. Raises `Unavailable`; then the next run does it."""
        await self._consumer.wait()
        if self._is_busy():
            await asyncio.sleep(BUSY_RUN_SECONDS)
        env = self._env
        await env[Events].number()
        webhooks = await env[Webhooks].all()
        dropping = [one for one in webhooks if one.dropped_up_to != self._dropped.get(one.id, 0)]
        # Deliveries that were given up are marked before any are claimed.
        self._follow([one for one in webhooks if one.enabled and one not in dropping])
        if webhooks:
            await fan_out(env, webhooks)
        for webhook in dropping:
            await self._drop(webhook)
        if self._recorder.is_behind:  # deliveries that were sent would be claimed and sent again
            return
        due = await self._consumer.due(self._channels.values())
        if not self._looked:
            await self._begin_anew(due)
            self._looked = True
        await self._consumer.claim(due)
        if dropping:
            self._signal.hear()

    async def close(self) -> None:
        """Waits a little for deliveries that are being sent, and releases all other claimed
        ones."""
        await self._consumer.close(self._channels.values())
        await self._recorder.close()

    def _follow(self, enabled: list[Webhook]) -> None:
        """Keeps a channel for each enabled webhook as it is now; cancels deliveries to all
        others."""
        self._webhooks = {webhook.id: webhook for webhook in enabled}
        for webhook in enabled:
            channel = self._channels.setdefault(webhook.id, Channel(self._at_once))
            channel.params = {"webhook_id": webhook.id, "dropped_up_to": webhook.dropped_up_to}
        for gone in self._channels.keys() - self._webhooks:
            self._channels.pop(gone).cancel()

    async def _drop(self, webhook: Webhook) -> None:
        """Marks a batch of the deliveries that were given up when a webhook was disabled: there may
        be a million, and other deliveries must not wait for all of them."""
        async with self._env.db.transaction() as tx:
            more = await self._env[Deliveries].drop(tx, webhook)
        if not more:
            self._dropped[webhook.id] = webhook.dropped_up_to

    async def _begin_anew(self, due: Mapping[Channel, int]) -> None:
        """Clears since when webhooks fail for which nothing was tried: no server was running."""
        late = self._env.clock() - LATE
        for webhook_id, channel in self._channels.items():
            if channel in due and due[channel] <= late:
                async with self._env.db.transaction() as tx:
                    await self._env[Webhooks].begin_anew(tx, webhook_id)

    async def _begin(self, claimed: list[Delivery]) -> list[tuple[Channel, int, Work]]:
        env = self._env
        bodies: dict[int, tuple[bytes, str | None]] = {}
        async for event in env[Events].each({delivery.event_id for delivery in claimed}):
            bodies[event.id] = self._encode(event), event.traceparent
        return [
            (
                channel,
                one.id,
                partial(self._send, channel, one, *bodies.get(one.event_id, (None, None))),
            )
            for one in sorted(claimed, key=lambda one: one.id)
            if (channel := self._channels.get(one.webhook_id))
        ]

    def _is_busy(self) -> bool:
        """Whether requests have priority."""
        now = asyncio.get_running_loop().time()
        if self._requests() >= BUSY_REQUESTS:
            self._busy_until = now + BUSY_SECONDS
        return now < self._busy_until

    async def _send(
        self, channel: Channel, delivery: Delivery, body: bytes | None, traceparent: str | None
    ) -> None:
        """Sends a delivery once. `body` is None if the event was removed; `traceparent` is the span
        of the event's change, if that was traced."""
        env, webhook = self._env, self._webhooks[delivery.webhook_id]
        now = env.clock()
        secret, *former = (decrypted(env, sealed) for sealed in webhook.secrets(now))
        if body is None:
            attempt = DeliveryAttempt(delivery.id, "failed", None, None, _EVENT_REMOVED, 0, None)
        elif secret is None:
            # Another host may be able to read it, or this one once it has the right secret again.
            attempt = self._attempt(delivery, _NOT_SENT)
            self._pace(channel, failing=True, quick=False)
        else:
            headers = signed_headers(
                [secret, *(one for one in former if one is not None)],
                f"evt_{delivery.event_id}",
                now // SECOND,
                body,
            )
            headers |= {"content-type": "application/json", "user-agent": self._user_agent}
            if traceparent is not None:
                headers["traceparent"] = traceparent
            outcome = await self._sender.send(webhook.url, headers, body)
            attempt = self._attempt(delivery, outcome)
            quick = outcome.milliseconds < QUICK_MILLISECONDS and len(body) <= QUICK_BYTES
            self._pace(channel, failing=attempt.status != "delivered", quick=quick)
        self._recorder.note(FinishedAttempt(webhook, delivery, attempt))

    def _pace(self, channel: Channel, *, failing: bool, quick: bool) -> None:
        """How many deliveries to claim, and with which pause, after an attempt."""
        channel.most = 1 if failing else max(AHEAD, channel.places) if quick else channel.places
        channel.pause = FAILING_PAUSE_SECONDS if failing else 0.0

    def _attempt(self, delivery: Delivery, outcome: DeliveryOutcome) -> DeliveryAttempt:
        status = outcome.status
        delivered = status is not None and 200 <= status < 300
        again = None
        if not delivered and status != GONE:
            again = next_try(self._env, delivery, outcome.retry_after)
        return DeliveryAttempt(
            id=delivery.id,
            status="delivered" if delivered else "failed" if again is None else "pending",
            next_attempt_at=again,
            last_status=status,
            last_error=None if delivered else outcome.error or f"it answered {status}",
            last_milliseconds=outcome.milliseconds,
            answer=outcome.answer,
        )
