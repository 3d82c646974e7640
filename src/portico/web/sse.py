"""Server-Sent Events (WHATWG HTML standard §9.2)."""

import re
from collections.abc import AsyncGenerator, Callable

from portico.core.errors import Fault, unreadable
from portico.core.ids import MAX_ID
from portico.web.messages import Request, Stream

EVENT_STREAM = "text/event-stream"

LAST_EVENT_ID = "Last-Event-ID"
_HEADERS = (
    ("content-type", EVENT_STREAM),
    ("x-accel-buffering", "no"),  # proxies must not buffer it
)
_LINE_END = re.compile("\r\n|\n|\r")
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")


def event_stream(chunks: AsyncGenerator[bytes, None], ended: Callable[[], object]) -> Stream:
    """A reply that streams events; see `Stream`."""
    return Stream(200, chunks, ended, [*_HEADERS], finite=False)


def event_bytes(event_id: int, kind: str, data: str) -> bytes:
    """One event on the wire. `kind` contains no line end; `data` may have several lines."""
    lines = "".join(f"data: {line}\n" for line in _LINE_END.split(data))
    return f"id: {event_id}\nevent: {kind}\n{lines}\n".encode()


def position_bytes(event_id: int) -> bytes:
    """A comment, which keeps the connection alive, and the id after which a reconnecting client
    resumes. Without data it is not an event."""
    return f":\nid: {event_id}\n\n".encode()


def last_event_id(request: Request) -> int | None:
    """The id of the last event that the client has received, None without the header. Raises
    `Unreadable`."""
    sent = request.listed(LAST_EVENT_ID.lower())
    if sent is None:
        return None
    if _DECIMAL.fullmatch(sent) is None or (number := int(sent)) > MAX_ID:
        message = f"must be sent once, and be a whole number from 0 to {MAX_ID}"
        raise unreadable(Fault(LAST_EVENT_ID, message))
    return number
