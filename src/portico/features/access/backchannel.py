"""Tells OAuth clients that a session has ended (OpenID Connect Back-Channel Logout 1.0).

What ends a session queues a row for each client that the user has signed in to in it, in the same
transaction. The job sends each a logout token, again and again if need be.
"""

import logging
from collections.abc import Iterable
from functools import partial
from urllib.parse import urlencode

from portico.change import Change
from portico.core.events import LONGEST_RETRY_AFTER
from portico.core.sessions import Session
from portico.core.times import SECOND
from portico.data import queue
from portico.environment import Environment
from portico.features.access.signing import Signer
from portico.features.access.storage import Clients, Logout, Logouts
from portico.features.mail.storage import Mails
from portico.jobs.queue import POLL_SECONDS, Channel, Consumer, Work
from portico.outbound.sender import DeliveryOutcome, Sends
from portico.web.messages import FORM

LOGOUT_TOKEN_TYPE = "logout+jwt"  # noqa: S105 - the `typ` of one (Back-Channel Logout §2.4)
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
TOKEN_SECONDS = 120
"""How long a logout token is valid; each attempt has its own."""

CLIENTS_AT_ONCE = 20
"""How many clients' rows are claimed at a time."""

AT_ONCE = 16
"""The most tokens that one process sends to one client at the same time; one that fails gets one at
a time."""

CLAIM_SECONDS, ATTEMPT_SECONDS = 30, 20
"""How long a claim lasts, and must last when sending begins: an attempt ends before it."""

FAILING_PAUSE_SECONDS = 0.05

log = logging.getLogger(__name__)


async def announce_end(env: Environment, change: Change, session: Session) -> None:
    """Queues what clients are told of a session that ends with this change."""
    if await env[Logouts].of_session(change.tx, session.user_id, session.sid, change.now):
        change.posted = True


async def announce_ends(
    env: Environment, change: Change, user_id: int, client_row_id: int = 0
) -> None:
    """Queues what a client, or every client, is told of all that a user allows it, before this
    change ends that."""
    if await env[Logouts].of_user(change.tx, user_id, change.now, client_row_id):
        change.posted = True


class SendLogouts:
    """Sends the logout tokens of one environment in one process. Each client has a channel, so that
    one that is slow or dead does not hold up the others."""

    def __init__(self, env: Environment, sender: Sends, user_agent: str) -> None:
        self._env = env
        self._sender = sender
        self._headers = {"content-type": FORM, "user-agent": user_agent}
        self._channels: dict[int, Channel] = {}
        """By the row of the client."""
        self._consumer = Consumer(
            env,
            env[Logouts].queue,
            env[Mails].signal.listener(),  # which every change rings that has something to send
            self._begin,
            claim_seconds=CLAIM_SECONDS,
            attempt_seconds=ATTEMPT_SECONDS,
        )

    async def run(self) -> None:
        """Waits until there may be something to do, then begins to send what is due. Raises
        `Unavailable`; then the next run does it."""
        await self._consumer.wait()
        self._channels = {row: one for row, one in self._channels.items() if one.claimed}
        full = [row for row, one in self._channels.items() if one.claimed >= one.most]
        soon = self._env.clock() + round(POLL_SECONDS * SECOND)
        rows = await self._env[Logouts].due_clients(soon, full, CLIENTS_AT_ONCE)
        for row in rows:
            channel = self._channels.setdefault(row, Channel(AT_ONCE))
            channel.params = {"client_row_id": row}
        due = await self._consumer.due([self._channels[row] for row in rows])
        await self._consumer.claim(due)

    async def close(self) -> None:
        """Waits a little for what is being sent, and releases everything else that is claimed."""
        await self._consumer.close(self._channels.values())

    async def _begin(self, logouts: list[Logout]) -> Iterable[tuple[Channel, int, Work]]:
        return [
            (channel, one.id, partial(self._send, channel, one))
            for one in logouts
            if (channel := self._channels.get(one.client_row_id))
        ]

    async def _send(self, channel: Channel, logout: Logout) -> None:
        """Makes one attempt, and stores its outcome."""
        await self._consumer.finish(logout.id, await self._attempt(channel, logout))

    async def _attempt(self, channel: Channel, logout: Logout) -> int | None:
        """Sends a token; returns when the next attempt is due, None if there is none."""
        env = self._env
        client = await env[Clients].get(logout.client_row_id)
        if client is None or client.backchannel_logout_uri is None:
            return None
        body = urlencode({"logout_token": await self._token(client.client_id, logout)}).encode()
        outcome = await self._sender.send(client.backchannel_logout_uri, self._headers, body)
        delivered = outcome.status is not None and 200 <= outcome.status < 300
        channel.most = channel.places if delivered else 1
        channel.pause = 0.0 if delivered else FAILING_PAUSE_SECONDS
        if delivered:
            return None
        again = self._next(logout, outcome)
        if again is None:
            reason = outcome.error or f"it answered {outcome.status}"
            log.error("%s was not told of a logout, and is given up: %s", client.client_id, reason)
        return again

    async def _token(self, client_id: str, logout: Logout) -> str:
        """A logout token (Back-Channel Logout §2.4)."""
        env = self._env
        await env[Signer].ready()
        now = env.clock()
        claims = {
            "aud": client_id,
            "sub": str(logout.user_id),
            **({} if logout.sid is None else {"sid": logout.sid}),
            "events": {LOGOUT_EVENT: {}},
            "jti": env.random(16).hex(),
            "exp": now // SECOND + TOKEN_SECONDS,
        }
        return env[Signer].sign(claims, now, LOGOUT_TOKEN_TYPE)

    def _next(self, logout: Logout, outcome: DeliveryOutcome) -> int | None:
        chance = int.from_bytes(self._env.random(4)) / 2**32
        least = min(outcome.retry_after or 0, LONGEST_RETRY_AFTER)
        return queue.DELIVERIES.next(
            self._env.clock(), logout.attempts, chance=chance, at_least=least
        )
