"""The operations that the library's logic requests, so that it does no I/O itself.

A `Flow` is a generator: it yields an operation, is sent its outcome, and returns its own result.
`drivers` carries the operations out, once synchronously and once for asyncio.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """Sends a request once. Returns a `Response`; raises `ConnectionFailed` if there is none.

    If it is `streamed`, a successful response is returned before its body has arrived.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | None = field(default=None, repr=False)
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """A response. The names of its headers are looked up in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    body: Any = field(default=None, repr=False)
    """The body of a streamed response, for `Part` and `Shut`."""
    at: float = 0.0
    """When the response arrived, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class Part:
    """Waits for the next part of a body. Returns b"" at the end; raises `ConnectionFailed` if the
    connection breaks."""

    body: Any


@dataclass(frozen=True, slots=True)
class Shut:
    """Closes a body, read to its end or not."""

    body: Any


@dataclass(frozen=True, slots=True)
class Pause:
    """Waits for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Whole:
    """Runs a flow to its end, even if the caller is cancelled. Returns the flow's result."""

    flow: "Flow[Any]"


@dataclass(frozen=True, slots=True)
class Alone(Whole):
    """Like `Whole`, but only one `Alone` of a driver runs at a time."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Calls a listener with the value, and awaits its result if that is awaitable."""

    listener: Callable[[Any], Any]
    value: Any = field(repr=False)


Wanted: TypeAlias = Request | Part | Shut | Pause | Whole | Tell

Flow: TypeAlias = Generator[Wanted, Any, T]
