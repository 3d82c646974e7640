"""`portico events listen`: follows events, and forwards them to a receiver under development.

It reads the database where there is one. So it needs no key, and misses nothing while the server
restarts. On another machine it follows the API.
"""

import asyncio
import os
import sys
import time
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, closing

import msgspec
from msgspec import UNSET, UnsetType

from portico.cli.output import (
    CYAN,
    DIM,
    GREEN,
    RED,
    RESET,
    CommandError,
    in_colour,
    mention,
    plain,
    say,
    say_json,
)
from portico.cli.prepared import environment
from portico.cli.remote import Api, chosen_api
from portico.core.errors import BrokenRule, Unavailable
from portico.core.events import EVENT_TYPES, StoredEvent
from portico.core.networks import ANYWHERE
from portico.core.times import SECOND, Clock
from portico.environment import Environment
from portico.features.events.commands.events import LONGEST, chosen_types, in_short
from portico.features.events.feed import LOOK_SECONDS, read_events, require_kept
from portico.features.events.payloads import EventBody, delivered, event_body
from portico.features.events.rules import mint_webhook_secret, signed_headers, webhook_secret
from portico.features.events.storage import Events
from portico.outbound.sender import DeliveryOutcome, Sender
from portico.settings import Settings
from portico.version import version
from portico.web.envelope import encode, timestamp

SECRET_VARIABLE = "WEBHOOK_SECRET"  # noqa: S105 - the name of one
PAGE = 100
"""How many events are read at once."""

RETRY_SECONDS = 1.0
"""How long to wait before reading again from a database that is unreachable."""

AGAIN_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""The waits before an event that got no answer is sent again."""

_ID_WIDTH, _TYPE_WIDTH = 5, max(map(len, EVENT_TYPES))


class Forwarded(msgspec.Struct, frozen=True):
    """The status that the receiver answered, or why there was no answer, and how long it took."""

    status: int | None
    error: str | None
    milliseconds: int


class Heard(EventBody, frozen=True):
    """An event, and the outcome of forwarding it."""

    forwarded: Forwarded | UnsetType = UNSET


class Receiver:
    """The receiver that events are forwarded to."""

    def __init__(self, url: str, secret: str, clock: Clock) -> None:
        self._url = url
        self._secret = secret
        self._clock = clock
        self._sender = Sender(ANYWHERE, clock)
        self._agent = f"Portico/{version()}"

    async def send(self, event: StoredEvent) -> DeliveryOutcome:
        """Sends an event until there is an answer with any status, a few times at most."""
        body = delivered(event)
        for number, wait in enumerate(AGAIN_SECONDS):
            outcome = await self._once(event.id, body)
            if outcome.status is not None:
                return outcome
            if number == 0:
                mention(f"Event {event.id} is not forwarded yet: {plain(outcome.error or '')}")
            await asyncio.sleep(wait)
        return await self._once(event.id, body)

    async def _once(self, event_id: int, body: bytes) -> DeliveryOutcome:
        now = self._clock() // SECOND
        headers = signed_headers([self._secret], f"evt_{event_id}", now, body)
        headers |= {"content-type": "application/json", "user-agent": self._agent}
        return await self._sender.send(self._url, headers, body)

    async def close(self) -> None:
        """Closes its connections."""
        await self._sender.close()


def run(settings: Settings, chosen: Namespace) -> None:
    given = _given_secret() if chosen.forward_to else None
    if api := chosen_api(settings, chosen):
        _listen_remotely(api, chosen, given)
    else:
        asyncio.run(_listen(settings, chosen, given))


def _listen_remotely(api: Api, chosen: Namespace, given: str | None) -> None:
    """Follows the API. The main thread waits for events, so that Ctrl-C ends it at once."""
    greet = mention if chosen.json else say
    greet(f"Following the events of {api.base}.")
    secret = given or mint_webhook_secret(os.urandom)
    with asyncio.Runner() as runner, closing(api.events(chosen.after, chosen.type)) as events:
        receiver = None
        if chosen.forward_to:
            _greet_receiver(greet, chosen, given, secret)
            receiver = Receiver(chosen.forward_to, secret, lambda: time.time_ns() // 1_000_000)
        try:
            for event in events:
                _print(event, runner.run(receiver.send(event)) if receiver else None, chosen)
        finally:
            if receiver is not None:
                runner.run(receiver.close())


def _given_secret() -> str | None:
    """The secret from the environment: other users can see a command's arguments."""
    given = os.environ.get(SECRET_VARIABLE)
    try:
        return webhook_secret(given) if given else None
    except BrokenRule as error:
        raise CommandError(f"{SECRET_VARIABLE} {error}", 2) from None


async def _listen(settings: Settings, chosen: Namespace, given: str | None) -> None:
    async with environment(settings, chosen) as env:
        types = chosen_types(chosen)
        after = await _beginning(env, chosen.after)
        greet = mention if chosen.json else say
        greet(f"Following the events of {env.name} after {after}.")
        if not chosen.forward_to:
            await _tell(env, after, types, chosen, None)
            return
        secret = given or mint_webhook_secret(env.random)
        _greet_receiver(greet, chosen, given, secret)
        receiver = Receiver(chosen.forward_to, secret, env.clock)
        try:
            await _tell(env, after, types, chosen, receiver)
        finally:
            await receiver.close()


def _greet_receiver(
    greet: Callable[[str], None], chosen: Namespace, given: str | None, secret: str
) -> None:
    signed = f"that of {SECRET_VARIABLE}" if given else secret
    greet(f"Forwarding them to {chosen.forward_to}\n\n  secret   {signed}\n")


async def _beginning(env: Environment, after: int | None) -> int:
    """The id of the event after which to begin. Raises `Gone`."""
    if after is None:
        await env[Events].number()
        return await env[Events].last_id()
    if after:
        await require_kept(env[Events], after)
    return after


async def _tell(
    env: Environment,
    after: int,
    types: Sequence[str] | None,
    chosen: Namespace,
    receiver: Receiver | None,
) -> None:
    """Prints, and forwards, each event of these types."""
    async with aclosing(_events(env, after)) as events:
        async for event in events:
            if types is not None and event.type not in types:
                continue
            _print(event, await receiver.send(event) if receiver else None, chosen)


def _print(event: StoredEvent, outcome: DeliveryOutcome | None, chosen: Namespace) -> None:
    if chosen.json:
        say_json(_object(event, outcome))
    else:
        say(_line(event, outcome, colours=in_colour(sys.stdout)))


async def _events(env: Environment, after: int) -> AsyncGenerator[StoredEvent, None]:
    """All events after the one with this id, as they happen, without end."""
    signal = env.db.signal.listener()
    reachable = True
    while True:
        try:
            page = await read_events(env[Events], after, None, PAGE)
        except Unavailable as error:
            if reachable:
                mention(f"{error.message} Trying again.")
            reachable = False
            await signal.wait(RETRY_SECONDS)
            continue
        reachable = True
        for event in page.rows:
            yield event
            after = event.id
        if not page.has_more:
            await signal.wait(LOOK_SECONDS)


def _object(event: StoredEvent, outcome: DeliveryOutcome | None) -> bytes:
    body = event_body(event)
    forwarded = Forwarded(outcome.status, outcome.error, outcome.milliseconds) if outcome else UNSET
    return encode(Heard(body.id, body.type, body.timestamp, body.data, body.previous, forwarded))


def _line(event: StoredEvent, outcome: DeliveryOutcome | None, *, colours: bool) -> str:
    """An event as a line of text: time, id, type, description, and the receiver's answer."""

    def paint(colour: str, text: str) -> str:
        return f"{colour}{text}{RESET}" if colours else text

    parts = [
        paint(DIM, timestamp(event.at)[:19].replace("T", " ") + "Z"),
        str(event.id).rjust(_ID_WIDTH),
        paint(CYAN, event.type.ljust(_TYPE_WIDTH)),
        in_short(event),
    ]
    if outcome is not None:
        well = outcome.status is not None and 200 <= outcome.status < 300
        parts.append(paint(GREEN if well else RED, _answered(outcome, well=well)))
    return "  ".join(parts)


def _answered(outcome: DeliveryOutcome, *, well: bool) -> str:
    if outcome.status is None:
        return f"not delivered: {plain(outcome.error or '')}"
    summary = f"{outcome.status} in {outcome.milliseconds} ms"
    body = plain(outcome.answer.strip())[:LONGEST]
    return summary if well or not body else f"{summary}: {body}"
