"""Requests that may be repeated: the key that a client gives one, and its stored answer."""

import hmac
from hashlib import sha256

import msgspec

HEADER = "Idempotency-Key"
KEPT_SECONDS = 86_400
KEY_LENGTH = (1, 255)


class KeyedRequest(msgspec.Struct, frozen=True):
    """A request with an `Idempotency-Key`. It belongs to an account and a route.

    `key_hash` is the key's SHA-256. `body_hash` is the body's HMAC under the key, which itself is
    not stored: a body may contain a password, which a plain digest would let others guess.
    """

    user_id: int
    route: str
    key_hash: bytes
    body_hash: bytes


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request, without secrets."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Kept(msgspec.Struct, frozen=True):
    """A stored answer; `body_hash` is that of the request."""

    body_hash: bytes
    answer: Answer


def is_key(text: str) -> bool:
    """Whether a text can be a key: 1 to 255 visible ASCII characters."""
    return KEY_LENGTH[0] <= len(text) <= KEY_LENGTH[1] and all("!" <= c <= "~" for c in text)


def keyed(user_id: int, route: str, key: str, body: bytes) -> KeyedRequest:
    """The request of an account for a route, with this key and body."""
    raw = key.encode()
    return KeyedRequest(user_id, route, sha256(raw).digest(), hmac.digest(raw, body, "sha256"))
