"""The parts that all answers share: envelopes, pagination, times, and the error body."""

import time
from functools import lru_cache
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.core.errors import Fault

T = TypeVar("T")

Timestamp = Annotated[
    str,
    Meta(
        description="ISO 8601, UTC, to the millisecond.",
        examples=["2026-01-31T08:15:30.123Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Identifier = Annotated[
    int, Meta(ge=1, description="Assigned by the service, never reused.", examples=[17])
]


class Pagination(msgspec.Struct, frozen=True):
    """The position of a page in its list."""

    page: Annotated[int, Meta(ge=1, examples=[1])]
    limit: Annotated[int, Meta(ge=1, le=100, examples=[25])]
    total_items: Annotated[
        int, Meta(ge=0, description="Exact unless `total_is_exact` is false.", examples=[1])
    ]
    total_pages: Annotated[int, Meta(ge=0, examples=[1])]
    total_is_exact: (
        Annotated[
            bool,
            Meta(
                description="Present only if false: more than `total_items` items match the"
                " filters. Use the cursor in `Link` to read the pages after `total_pages`."
            ),
        ]
        | UnsetType
    ) = UNSET


class Single(msgspec.Struct, Generic[T], frozen=True):
    """One resource."""

    data: T


class Created(msgspec.Struct, Generic[T], frozen=True):
    """A resource that was just created."""

    data: T
    message: Annotated[str, Meta(description="For people.")]
    """`T.message`, or one like it."""


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """One page of resources."""

    data: list[T]
    pagination: Pagination


class ErrorFacts(msgspec.Struct, frozen=True):
    """What went wrong."""

    code: str
    message: str
    details: list[Fault]


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: ErrorFacts


encode = msgspec.json.Encoder().encode


def listed(data: list[T], *, page: int, limit: int, total: int, exact: bool = True) -> Listed[T]:
    """`data` as one page of `total` items, or of more than `total` if that is not `exact`."""
    total_exact = UNSET if exact else False
    return Listed(data, Pagination(page, limit, total, -(-total // limit), total_exact))


_FRACTIONS = tuple(f".{rest:03d}Z" for rest in range(1000))


@lru_cache(maxsize=4096)
def _to_the_second(seconds: int) -> str:
    written = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return written.zfill(19)  # glibc writes years before 1000 without zeros


def timestamp(milliseconds: int) -> str:
    """Milliseconds since the epoch as `Timestamp`."""
    seconds, rest = divmod(milliseconds, 1000)
    return _to_the_second(seconds) + _FRACTIONS[rest]


def optional_timestamp(milliseconds: int | None) -> str | None:
    """As `timestamp`, for a time that may be None."""
    return None if milliseconds is None else timestamp(milliseconds)


def error_body(code: str, message: str, details: Any) -> bytes:
    """The error body of specification §7, encoded."""
    return encode(ErrorBody(ErrorFacts(code, message, list(details))))
