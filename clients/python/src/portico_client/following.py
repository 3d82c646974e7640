"""Events as they happen, over connections that may break.

A stream resumes after the last event that arrived completely: whatever ended the connection, the
next one requests the events after it (`Last-Event-ID`), so none is missed and none comes twice. The
first connection is made like any call. Later ones are retried for as long as it takes, with delays
of up to half a minute, unless the service refuses for good: by a 4xx other than 429, or by a
`Retry-After` beyond the client's patience. A 204 ends the stream.
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
from portico_client.events import Event
from portico_client.flow import Flow, Part, Pause, Shut
from portico_client.inputs import StreamFilters
from portico_client.reading import decode, event, unexpected
from portico_client.retries import Retries
from portico_client.sse import Message, Parser

EVENT_STREAM = "text/event-stream"


class Following:
    """One stream of events, and its position."""

    def __init__(self, access: Access, retries: Retries, filters: StreamFilters) -> None:
        """Without `after`, the stream begins with new events."""
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
        """The delays before the next connections; reset once one of them delivers data."""
        self.body: Any = None
        """The body of the response that is being read, or None."""
        self.closed = False
        """Set to end the stream, by its user or by the service."""

    def begin(self) -> Flow[None]:
        """Opens the stream unless it is open. Raises `APIError` if the service refuses it,
        `ConnectionFailed` and `UnexpectedAnswer`."""
        if not self._begun:
            yield from self._connect()
            self._begun = True

    def received(self) -> Event | None:
        """The next event that has already arrived, or None. Raises `UnexpectedAnswer`."""
        while self._messages and not self.closed:
            message = self._messages.popleft()
            self._last_id = message.last_id or self._last_id
            if message.data:
                return _read(message)
        return None

    def next(self) -> Flow[Event | None]:
        """Waits for the next event and returns it, or None once this is closed. Raises as `begin`
        does."""
        while (yield from self.more()):
            event = self.received()
            if event is not None:
                return event
        return None

    def more(self) -> Flow[bool]:
        """Waits until a message has arrived. Returns False once this is closed. Raises as `begin`
        does."""
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
        if response.status == 204:  # by the standard: do not reconnect
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
        return event(decode(message.data.encode()))
    except (KeyError, TypeError, ValueError) as error:
        raise UnexpectedAnswer("an event of the stream cannot be understood") from error
