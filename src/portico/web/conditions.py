"""Entity tags and conditional requests (RFC 9110 §13)."""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from portico.core.errors import PreconditionFailed
from portico.web.envelope import Single, encode
from portico.web.messages import Request

R = TypeVar("R")

_STRONG = re.compile('"[^"]*"')


def entity_tag(body: bytes) -> str:
    """A strong entity tag: a digest of the body, quotes included."""
    return f'"{sha256(body).hexdigest()[:32]}"'


def etag_header(shown: object) -> tuple[str, str]:
    """The `ETag` header after a resource was created or changed: that of the resource as a GET
    shows it (RFC 9110 §15.3.2, RFC 5789 §2.1)."""
    return "etag", entity_tag(encode(Single(shown)))


def coded_tag(tag: str) -> str:
    """The tag of the same representation compressed with gzip (RFC 9110 §8.8.3.3). It ends with
    gzip's magic number."""
    return f'{tag[:-1]}1f8b"'


def matches(header: str, tag: str, *, weak: bool) -> bool:
    """Whether a list of entity tags contains `tag` or is `*`. `weak` compares as `If-None-Match`
    does."""
    if header.strip() == "*":
        return True
    listed = [item.strip() for item in header.split(",")]
    if weak:
        listed = [item.removeprefix("W/") for item in listed]
    return tag in listed


def require_match(header: str | None, body: bytes) -> None:
    """Raises `PreconditionFailed` if `If-Match` does not name the representation `body`."""
    if header is not None:
        _require_named(header, entity_tag(body))


def _require_named(header: str, tag: str) -> None:
    """Raises `PreconditionFailed` unless `If-Match` names the tag, by the strong comparison (RFC
    9110 §13.1.1)."""
    # The client may have the tag from a compressed answer.
    if not any(matches(header, one, weak=False) for one in (tag, coded_tag(tag))):
        if not all(_STRONG.fullmatch(item.strip()) for item in header.split(",")):
            raise PreconditionFailed(
                'If-Match takes entity tags in quotes, as ETag has them; a weak one (W/"…") never'
                " matches."
            )
        raise PreconditionFailed(
            "The resource has changed; read it again, and send its new ETag in If-Match."
        )


def require_tag(request: Request, tag: str) -> None:
    """As `require_match`, for a GET whose answer has this entity tag."""
    header = request.listed("if-match")
    if header is not None:
        _require_named(header, tag)


def precondition(request: Request, shown: Callable[[R], object]) -> Callable[[R], None]:
    """A check of the request's `If-Match` and `If-None-Match` against the stored record, as a GET
    has it `shown`. It raises `PreconditionFailed`."""
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
            raise PreconditionFailed("The resource exists and matches If-None-Match.")

    return check
