"""Entity tags and conditional requests (RFC 9110 §13)."""

from hashlib import sha256

from portico.domain.errors import PreconditionFailed


def entity_tag(body: bytes) -> str:
    """A strong entity tag: a digest of the representation, quotes included."""
    return f'"{sha256(body).hexdigest()[:32]}"'


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
    if header is not None and not matches(header, entity_tag(body), weak=False):
        raise PreconditionFailed(
            "The resource has changed since: read it again, and send its ETag in If-Match."
        )
