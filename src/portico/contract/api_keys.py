"""API keys on the wire."""

from typing import Literal

import msgspec

from portico.contract.envelope import Identifier, Timestamp, timestamp
from portico.domain.api_keys import ApiKey


class PreviousKey(msgspec.Struct, frozen=True):
    """The key that a rotation replaced, and when it ends."""

    id: Identifier
    expires_at: Timestamp


class RotatedKey(msgspec.Struct, frozen=True):
    """The successor of a rotated key; `key` is shown this once."""

    id: Identifier
    name: str
    type: Literal["live", "test", "read"]
    key: str
    hint: str
    created_at: Timestamp
    expires_at: Timestamp | None
    previous_key: PreviousKey


def rotated_key(successor: ApiKey, key: str, previous_id: int, previous_end: int) -> RotatedKey:
    """What POST /api-keys/rotate answers."""
    return RotatedKey(
        successor.id,
        successor.name,
        successor.type,
        key,
        successor.hint,
        timestamp(successor.created_at),
        None if successor.expires_at is None else timestamp(successor.expires_at),
        PreviousKey(previous_id, timestamp(previous_end)),
    )
