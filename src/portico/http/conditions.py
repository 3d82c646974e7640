"""Entity tags and conditional requests (RFC 9110 §13)."""

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from portico.contract.envelope import Single, encode
from portico.domain.errors import PreconditionFailed
from portico.http.messages import Request

R = TypeVar("R")


def entity_tag(body: bytes) -> str:
    """A strong entity tag: a digest of the representation, quotes included."""
    return f'"{sha256(body).hexdigest()[:32]}"'


def current(shown: object) -> tuple[str, str]:
    """The `ETag` on the answer to what made or changed a resource: that of the resource by itself,
    as it is `shown` to a GET (RFC 9110 §15.3.2, RFC 5789 §2.1)."""
    return "etag", entity_tag(encode(Single(shown)))


def coded_tag(tag: str) -> str:
    """That of the same representation in the coding `gzip` (RFC 9110 §8.8.3.3): it ends as that
    coding begins."""
    return f'{tag[:-1]}1f8b"'


def matches(header: str, tag: str, *, weak: bool) -> bool:
    """Whether a list of entity tags has `tag`, or is `*`. `weak` as in `If-None-Match`."""
    if header.strip() == "*":
        return True
    listed = [item.strip() for item in header.split(",")]
    if weak:
        listed = [item.removeprefix("W/") for item in listed]
    return tag in listed


def require_match(header: str | None, body: bytes) -> None:
    """Raises `PreconditionFailed` when `If-Match` names another representation than `body`."""
    if header is not None:
        _require_named(header, entity_tag(body))


def _require_named(header: str, tag: str) -> None:
    # Whoever sends it may have read what it is of in either coding.
    if not any(matches(header, one, weak=False) for one in (tag, coded_tag(tag))):
        raise PreconditionFailed(
            "The resource has changed since: read it again, and send its ETag in If-Match."
        )


def require_tag(request: Request, tag: str) -> None:
    """The same for what has this entity tag, and is read."""
    header = request.listed("if-match")
    if header is not None:
        _require_named(header, tag)


def expected(request: Request, shown: Callable[[R], object]) -> Callable[[R], None]:
    """Holds what a change finds, as it is `shown`, against the caller's `If-Match` and
    `If-None-Match`: raises `PreconditionFailed` where the one names another, or the other this."""
    match, none_match = request.listed("if-match"), request.listed("if-none-match")

    def check(record: R) -> None:
        if match is None and none_match is None:
            return
        tag = entity_tag(encode(Single(shown(record))))
        if match is not None:
            _require_named(match, tag)
        if none_match is not None and any(
            matches(none_match, one, weak=True) for one in (tag, coded_tag(tag))
        ):
            raise PreconditionFailed("The resource is there, and as If-None-Match names it.")

    return check
