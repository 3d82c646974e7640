"""API keys on the wire."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.contract.envelope import Identifier, Timestamp, timestamp
from portico.domain.api_keys import ApiKey


class PreviousKey(msgspec.Struct, frozen=True):
    """The key that a rotation replaced, and when it ends."""

    id: Identifier
    expires_at: Timestamp


class RotatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """The successor of a rotated key; `key` is shown this once."""

    id: Identifier
    name: Annotated[str, Meta(examples=["Storefront"])]
    type: Literal["live", "test", "read"]
    key: (
        Annotated[
            str,
            Meta(
                description="The secret; store it now. The answer to a repeated `Idempotency-Key`"
                " leaves it out.",
                examples=["sk_live_…"],
            ),
        ]
        | UnsetType
    ) = UNSET
    hint: Annotated[
        str, Meta(description="What may be shown of the key.", examples=["sk_live_…x7Qd"])
    ]
    created_at: Timestamp
    expires_at: Annotated[Timestamp | None, Meta(description="Null where the key has no end.")]
    previous_key: PreviousKey


def rotated_key(
    successor: ApiKey, key: str | UnsetType, previous_id: int, previous_end: int
) -> RotatedKey:
    """What POST /api-keys/rotate answers."""
    return RotatedKey(
        id=successor.id,
        name=successor.name,
        type=successor.type,
        key=key,
        hint=successor.hint,
        created_at=timestamp(successor.created_at),
        expires_at=None if successor.expires_at is None else timestamp(successor.expires_at),
        previous_key=PreviousKey(previous_id, timestamp(previous_end)),
    )
