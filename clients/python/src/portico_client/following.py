"""Events as they happen, over connections that break.

A stream goes on after the last event that came whole: whatever ended the connection, the next one
asks for what came after it (`Last-Event-ID`), so that none is missed and none comes twice. The
first connection is made like any call. Later ones are tried for as long as it takes, with delays up
to half a minute, unless the service refuses them for good: by a 4xx other than 429, or by a
`Retry-After` beyond the client's patience. A 204 says that there is nothing more, and ends it.
"""

import contextlib
from collections import deque
from typing import Any

from portico_client.access import Access
from portico_client.calls import query
from portico_client.errors import (
    APIError,
    ConnectionFailed,
    UnexpectedAnswer,
    UntrustedCertificate,
)
from portico_client.flow import Flow, Part, Pause, Shut
from portico_client.inputs import StreamFilters
from portico_client.models import Event
from portico_client.reading import event_of, unexpected
from portico_client.retries import Retries
from portico_client.sse import Message, Parser

EVENT_STREAM = "text/event-stream"


class Following:
    """One stream of events, and where it is."""

    def __init__(self, access: Access, retries: Retries, filters: StreamFilters) -> None:
        """Without `after`, it begins now."""
        rest = dict(filters)
        after = rest.pop("after", None)
        self._access = access
        self._retries = retries
        self._path = "/events/stream" + query(rest)
        self._last_id = None if after is None else str(after)
        self._parser = Parser()
        self._messages: deque[Message] = deque()
        self._begun = False
        self._delays = retries.endless_delays()
        """Before the next connections, until one of them tells something."""
        self.body: Any = None
        """Of the answer that is being read, if there is one."""
        self.closed = False
        """Set by whoever wants no more events, and where there are no more."""

    def begin(self) -> Flow[None]:
        """Begins, unless it has. Raises `APIError` where the service refuses the stream,
        `ConnectionFailed` and `UnexpectedAnswer`."""
        if not self._begun:
            yield from self._connect()
            self._begun = True

    def received(self) -> Event | None:
        """The next event that is here already, if there is one. Raises `UnexpectedAnswer`."""
        while self._messages and not self.closed:
            message = self._messages.popleft()
            self._last_id = message.last_id or self._last_id
            if message.data:
                return _read(message)
        return None

    def next(self) -> Flow[Event | None]:
        """The next event, waited for; None once this is closed. Raises as `begin` does."""
        while (yield from self.more()):
            event = self.received()
            if event is not None:
                return event
        return None

    def more(self) -> Flow[bool]:
        """Waits until something is `received`; whether it is, for not once this is closed. Raises
        as `begin` does."""
        while not self.closed:
            if self._messages:
                return True
            if self.body is not None:
                yield from self._take()
            elif self._begun:
                yield from self._connect_again()
            else:
                yield from self.begin()
        yield from self._end()
        return False

    def _take(self) -> Flow[None]:
        part = b""
        with contextlib.suppress(ConnectionFailed):
            part = yield Part(self.body)
        if part:
            self._delays = self._retries.endless_delays()
            try:
                self._messages.extend(self._parser.feed(part))
            except UnexpectedAnswer:
                yield from self._end()
                raise
        else:
            yield from self._end()

    def _end(self) -> Flow[None]:
        body, self.body = self.body, None
        if body is not None:
            yield Shut(body)

    def _connect(self) -> Flow[None]:
        headers = {"accept": EVENT_STREAM}
        if self._last_id is not None:
            headers["last-event-id"] = self._last_id
        response = yield from self._access.open(self._path, headers)
        self.body, self._parser = response.body, Parser()
        if response.status == 204:  # the standard's way to tell clients not to come back
            self.closed = True
        elif not response.headers.get("content-type", "").startswith(EVENT_STREAM):
            yield from self._end()
            raise unexpected(response)

    def _connect_again(self) -> Flow[None]:
        asked = 0
        for delay in self._delays:
            yield Pause(asked + delay)
            try:
                return (yield from self._connect())
            except UntrustedCertificate:
                raise
            except ConnectionFailed:
                asked = 0
            except APIError as refusal:
                asked = refusal.retry_after or 0
                passing = refusal.status == 429 or refusal.status >= 500
                if not passing or asked > self._retries.patience:
                    raise


def _read(message: Message) -> Event:
    try:
        return event_of(message.data.encode())
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise UnexpectedAnswer("an event of the stream cannot be understood") from error
