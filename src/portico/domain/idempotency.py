"""Requests that are repeated: the key that a client gives one, and what is kept of its answer."""

import msgspec

KEPT_SECONDS = 86_400
KEY_LENGTH = (1, 255)


class Attempt(msgspec.Struct, frozen=True):
    """One try of a request that may be tried again. It belongs to an account and a route; the key
    and the body are SHA-256 digests."""

    user_id: int
    route: str
    key_hash: bytes
    body_hash: bytes


class Kept(msgspec.Struct, frozen=True):
    """The answer that a request got; `body_hash` is that of the request."""

    body_hash: bytes
    status: int
    headers: list[tuple[str, str]]
    body: bytes


def well_formed(key: str) -> bool:
    """Tell whether a key is 1 to 255 visible ASCII characters."""
    return KEY_LENGTH[0] <= len(key) <= KEY_LENGTH[1] and all("!" <= c <= "~" for c in key)
