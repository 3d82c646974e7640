"""Delivers events to webhooks.

Every process of every host does so. A process claims a delivery before sending it, so that no other
sends it meanwhile; if the process dies, the delivery is due again when the claim ends. Each webhook
has its own places, so that one that is slow or dead does not hold up the others.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from portico.domain.errors import Unavailable
from portico.domain.published import StoredEvent
from portico.domain.times import DAY, SECOND
from portico.domain.webhook_signing import signed_headers
from portico.domain.webhooks import Delivery, Webhook
from portico.jobs.lanes import Claimed, Lane
from portico.jobs.recording import (
    CLOSE_SECONDS,
    DATABASE_RETRY_SECONDS,
    GONE,
    Ended,
    Recorder,
    next_try,
)
from portico.jobs.sending import Sends
from portico.outbound.sender import Outcome
from portico.services.environment import Environment
from portico.services.fan_out import fan_out
from portico.services.webhooks import decrypted
from portico.storage.database import Contended
from portico.storage.deliveries import Attempt

POLL_SECONDS = 5.0
"""How often to check for due deliveries without a bell, such as those that a killed process
left."""

CLAIM_SECONDS = 30
"""How long a claim lasts: then the delivery of a process that died is due again."""

FRESH_SECONDS = 10
"""How old a claim may be when sending begins, so that the attempt ends before the claim does."""

AT_ONCE = 16
"""The most deliveries to one webhook that one process sends at the same time."""

QUICK_MILLISECONDS, QUICK_BYTES = 500, 1 << 16
"""A quick delivery takes less time than this, with a body of at most this size. Only webhooks with
quick deliveries get many claimed ahead, since those wait in memory."""

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
deliveries, since each commit rings the bell on every host."""

BUSY_PAUSE_SECONDS = 0.005
"""While requests have priority: the pause between two deliveries to one webhook, which limits them
to a tenth of a core."""

LATE = DAY
"""If no attempt was made for this long after one was due, no server was running."""

_EVENT_REMOVED = "The event is no longer kept."

_NOT_SENT = Outcome(None, "This server cannot decrypt the webhook's secret.", "", 0, None)
"""The outcome if nothing was sent."""

log = logging.getLogger(__name__)


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
        self._bell = env.db.bell.listener()
        self._lanes: dict[int, Lane] = {}
        self._claiming: asyncio.Task[float] | None = None
        self._recorder = Recorder(env, self._bell)
        self._dropped: dict[int, int] = {}
        self._busy_until = 0.0
        """In the event loop's time."""
        self._wait = 0.0

    async def run(self) -> None:
        """Waits until there may be something to do, then claims due deliveries and begins to send
        them. Raises `Unavailable`; then the next run does it."""
        await self._bell.wait(self._wait)
        self._wait = DATABASE_RETRY_SECONDS
        if self._is_busy():
            await asyncio.sleep(BUSY_RUN_SECONDS)
        env = self._env
        await env.events.settle()
        webhooks = await env.webhooks.all()
        dropping = [one for one in webhooks if one.dropped_up_to != self._dropped.get(one.id, 0)]
        # Deliveries that were given up are marked before any are claimed.
        self._follow([one for one in webhooks if one.enabled and one not in dropping])
        if webhooks:
            await fan_out(env, webhooks)
        for webhook in dropping:
            await self._drop(webhook)
        if self._recorder.is_behind:  # deliveries that were sent would be claimed and sent again
            return
        self._claiming = asyncio.create_task(self._claim())  # which `close` waits for
        wait = await asyncio.shield(self._claiming)
        self._wait = 0.0 if dropping else wait

    async def close(self) -> None:
        """Waits a little for deliveries that are being sent, which would otherwise be sent twice;
        then cancels them, and releases all other claimed ones."""
        if self._claiming is not None:
            await asyncio.wait([self._claiming], timeout=CLOSE_SECONDS)
            self._claiming.cancel()
        lanes, self._lanes = [*self._lanes.values()], {}
        claimed = [one for lane in lanes for one in lane.clear()]
        sending = {task: one for lane in lanes for task, one in lane.sending.items()}
        if sending:
            await asyncio.wait(sending, timeout=CLOSE_SECONDS)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
        claimed += [one for task, one in sending.items() if task.cancelled()]
        await self._recorder.close()
        if not claimed:
            return
        try:
            async with self._env.db.transaction() as tx:
                ids = [one.delivery.id for one in claimed]
                await self._env.deliveries.release(tx, ids, self._env.clock())
        except (Unavailable, Contended):
            log.warning("deliveries under way may be sent again in %d s", CLAIM_SECONDS)

    def _follow(self, enabled: list[Webhook]) -> None:
        """Keeps a lane for each enabled webhook as it is now; cancels deliveries to all others."""
        for webhook in enabled:
            lane = self._lanes.setdefault(webhook.id, Lane(webhook, self._at_once))
            lane.webhook = webhook
        for gone in self._lanes.keys() - {webhook.id for webhook in enabled}:
            lane = self._lanes.pop(gone)
            lane.clear()
            for task in lane.sending:
                task.cancel()

    async def _drop(self, webhook: Webhook) -> None:
        """Marks a batch of the deliveries that were given up when a webhook was disabled: there may
        be a million, and other deliveries must not wait for all of them."""
        async with self._env.db.transaction() as tx:
            more = await self._env.deliveries.drop(tx, webhook)
        if not more:
            self._dropped[webhook.id] = webhook.dropped_up_to

    async def _claim(self) -> float:
        """Claims due deliveries for which there is room, and begins to send them; returns in how
        many seconds more may be due."""
        env, now = self._env, self._env.clock()
        rooms = [(lane.webhook, lane.room) for lane in self._lanes.values() if lane.room]
        due = await env.deliveries.next_due(rooms) if rooms else {}
        next_due = min(due.values(), default=now + round(POLL_SECONDS * SECOND))
        if next_due > now:
            return min(POLL_SECONDS, (next_due - now) / SECOND)
        until = now + CLAIM_SECONDS * SECOND
        async with env.db.transaction() as tx:
            for webhook_id in sorted(one for one in due if due[one] <= now - LATE):
                await env.webhooks.begin_anew_untried(tx, webhook_id, now - LATE)
            claimed = await env.deliveries.claim(tx, rooms, now=now, until=until)
        bodies: dict[int, tuple[bytes, str | None]] = {}
        async for event in env.events.each({delivery.event_id for delivery in claimed}):
            bodies[event.id] = self._encode(event), event.traceparent
        for delivery in sorted(claimed, key=lambda one: one.id):
            if lane := self._lanes.get(delivery.webhook_id):
                body, traceparent = bodies.get(delivery.event_id, (None, None))
                lane.waiting.append(Claimed(delivery, body, traceparent, now))
        for lane in self._lanes.values():
            self._fill(lane)
        # A due delivery that cannot be claimed is locked by another host, perhaps for long.
        return 0.0 if claimed else DATABASE_RETRY_SECONDS

    def _fill(self, lane: Lane) -> None:
        """Begins to send waiting deliveries, as far as there are places."""
        oldest = self._env.clock() - FRESH_SECONDS * SECOND
        places = 1 if self._pause(lane) else lane.places
        while lane.waiting and len(lane.sending) < places:
            claimed = lane.waiting.popleft()
            if claimed.at >= oldest:  # otherwise it is due again when the claim ends
                task = asyncio.create_task(self._send(lane, claimed))
                lane.sending[task] = claimed
                task.add_done_callback(partial(self._sent, lane))

    def _sent(self, lane: Lane, task: asyncio.Task[None]) -> None:
        """Continues with waiting deliveries after one was sent."""
        lane.sending.pop(task, None)
        if task.cancelled():
            return
        if error := task.exception():
            log.error("a delivery ended unexpectedly", exc_info=error)
        if pause := self._pause(lane):
            asyncio.get_running_loop().call_later(pause, self._go_on, lane)
        else:
            self._go_on(lane)

    def _pause(self, lane: Lane) -> float:
        """The pause in seconds between two deliveries of a lane, which are then sent one by one; 0
        if they are sent at the same time."""
        busy = self._is_busy()
        if lane.failing:
            return FAILING_PAUSE_SECONDS
        return BUSY_PAUSE_SECONDS if busy else 0.0

    def _is_busy(self) -> bool:
        """Whether requests have priority."""
        now = asyncio.get_running_loop().time()
        if self._requests() >= BUSY_REQUESTS:
            self._busy_until = now + BUSY_SECONDS
        return now < self._busy_until

    def _go_on(self, lane: Lane) -> None:
        self._fill(lane)
        if lane.is_low:
            self._bell.hear()

    async def _send(self, lane: Lane, claimed: Claimed) -> None:
        env, webhook, delivery = self._env, lane.webhook, claimed.delivery
        now = env.clock()
        secret, *former = (decrypted(env, sealed) for sealed in webhook.secrets(now))
        if claimed.body is None:
            attempt = Attempt(delivery.id, "failed", None, None, _EVENT_REMOVED, 0, None)
        elif secret is None:
            # Another host may be able to read it, or this one once it has the right secret again.
            lane.failing = True
            attempt = self._attempt(delivery, _NOT_SENT)
        else:
            headers = signed_headers(
                [secret, *(one for one in former if one is not None)],
                f"evt_{delivery.event_id}",
                now // SECOND,
                claimed.body,
            )
            headers |= {"content-type": "application/json", "user-agent": self._user_agent}
            if claimed.traceparent is not None:
                headers["traceparent"] = claimed.traceparent
            outcome = await self._sender.send(webhook.url, headers, claimed.body)
            attempt = self._attempt(delivery, outcome)
            lane.failing = attempt.status != "delivered"
            quick = outcome.milliseconds < QUICK_MILLISECONDS and len(claimed.body) <= QUICK_BYTES
            lane.quick = quick and not lane.failing
        self._recorder.note(Ended(webhook, delivery, attempt))

    def _attempt(self, delivery: Delivery, outcome: Outcome) -> Attempt:
        status = outcome.status
        delivered = status is not None and 200 <= status < 300
        again = None
        if not delivered and status != GONE:
            again = next_try(self._env, delivery, outcome.retry_after)
        return Attempt(
            id=delivery.id,
            status="delivered" if delivered else "failed" if again is None else "pending",
            next_attempt_at=again,
            last_status=status,
            last_error=None if delivered else outcome.error or f"it answered {status}",
            last_milliseconds=outcome.milliseconds,
            answer=outcome.answer,
        )
