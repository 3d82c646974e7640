"""API keys: their format, what is stored of them, and when they are valid.

A key is `sk_`, its type, `_`, 256 random bits and a CRC-32 of all that, both in base62 of fixed
width. The checksum detects typos and junk without a look-up; it is no protection.
"""

from collections.abc import Callable
from string import ascii_letters, digits
from typing import Literal, cast
from zlib import crc32

import msgspec

from portico.domain.rules import OneOf, Trimmed
from portico.domain.scopes import READ_SCOPES
from portico.domain.secrets import RANDOM_BYTES, Random
from portico.domain.times import DAY
from portico.domain.words import KEY_TYPES as KEY_TYPES
from portico.domain.words import KeyType as KeyType

key_name = Trimmed(1, 100)
key_type = cast(Callable[[str], KeyType], OneOf(KEY_TYPES))
Status = Literal["active", "expired", "revoked"]

REMINDED_AHEAD = 7 * DAY
"""How long before a key expires its owner is reminded, in milliseconds. Keys with a shorter life
get no reminder."""

_ALPHABET = digits + ascii_letters
_BODY_LENGTH = 43  # 62^43 > 2^256
_CHECKSUM_LENGTH = 6  # 62^6 > 2^32
_PREFIX_LENGTH = len("sk_live_")
_KEY_LENGTH = _PREFIX_LENGTH + _BODY_LENGTH + _CHECKSUM_LENGTH
_TYPES_BY_PREFIX = {f"sk_{key_type}_": key_type for key_type in KEY_TYPES}


class ApiKey(msgspec.Struct, frozen=True):
    """An issued key; times are epoch milliseconds.

    Rotation sets `rotated_at`, and `expires_at` to the end of the overlap if that is earlier.
    `scopes` are some of the owner's, None for all; `networks` are those it may be used from, None
    for any. `maker_id` is the account that created it, or what it succeeds, for its owner; None if
    the owner or the operator did.
    """

    id: int
    user_id: int
    name: str
    type: KeyType
    hint: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None
    rotated_at: int | None
    scopes: frozenset[str] | None = None
    networks: tuple[str, ...] | None = None
    maker_id: int | None = None

    @property
    def carried(self) -> frozenset[str] | None:
        """The scopes that the key may use; None: all of its owner's."""
        if self.type != "read":
            return self.scopes
        return frozenset(READ_SCOPES) if self.scopes is None else self.scopes & READ_SCOPES


def mint(key_type: KeyType, random: Random) -> str:
    """A new key from 32 random bytes."""
    number = int.from_bytes(random(RANDOM_BYTES))
    checked = f"sk_{key_type}_{_base62(number, _BODY_LENGTH)}"
    return checked + _checksum(checked)


def key_type_of(key: str) -> KeyType | None:
    """The type of a well-formed key with the right checksum, else None."""
    if len(key) != _KEY_LENGTH or not key.isascii():
        return None
    key_type = _TYPES_BY_PREFIX.get(key[:_PREFIX_LENGTH])
    checked, checksum = key[:-_CHECKSUM_LENGTH], key[-_CHECKSUM_LENGTH:]
    if not checked[_PREFIX_LENGTH:].isalnum() or checksum != _checksum(checked):
        return None
    return key_type


def hint(key: str) -> str:
    """The part of a key that its owner may still see: the prefix and the last four characters."""
    return f"{key[:_PREFIX_LENGTH]}…{key[-4:]}"


def usable(key: ApiKey, now_ms: int) -> bool:
    """Whether a key is valid at this time: neither revoked nor expired."""
    if key.revoked_at is not None:
        return False
    return key.expires_at is None or now_ms < key.expires_at


def status(key: ApiKey, now_ms: int) -> Status:
    """The status of a key at this time."""
    if usable(key, now_ms):
        return "active"
    return "expired" if key.revoked_at is None else "revoked"


def _checksum(checked: str) -> str:
    return _base62(crc32(checked.encode()), _CHECKSUM_LENGTH)


def _base62(number: int, width: int) -> str:
    characters = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        characters.append(_ALPHABET[digit])
    return "".join(reversed(characters))
