"""What the logic asks of the outside world, so that it does no I/O itself.

A `Flow` is a generator: it yields what is to be done, is sent what came of it, and returns its
result. `drivers` does these things, once for callers that block and once for asyncio.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """To be sent, once. Gives a `Response`; raises `ConnectionFailed` where none came.

    Of one that is `streamed`, a success is given before its body is there.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | None = field(default=None, repr=False)
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; the names of its headers are looked up in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    body: Any = field(default=None, repr=False)
    """What `Part` and `Shut` take, of a request that was streamed."""
    at: float = 0.0
    """When it came, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class Part:
    """The next part of a body, to be waited for. Gives b"" at the end; raises `ConnectionFailed`
    where it breaks off."""

    body: Any


@dataclass(frozen=True, slots=True)
class Shut:
    """A body to be closed, wherever it is."""

    body: Any


@dataclass(frozen=True, slots=True)
class Pause:
    """To be waited, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Whole:
    """To be run to its end, even if whoever waits for it gives up. Gives what it returns."""

    flow: "Flow[Any]"


@dataclass(frozen=True, slots=True)
class Alone(Whole):
    """The same, while no other `Alone` of the same driver is."""


@dataclass(frozen=True, slots=True)
class Tell:
    """To be called with the value; what it returns is awaited, where that is possible."""

    listener: Callable[[Any], Any]
    value: Any = field(repr=False)


Wanted: TypeAlias = Request | Part | Shut | Pause | Whole | Tell

Flow: TypeAlias = Generator[Wanted, Any, T]
