"""API keys on the wire."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.contract.envelope import Identifier, Timestamp, timestamp
from portico.domain.api_keys import ApiKey, KeyType, Status, status
from portico.domain.scopes import SCOPES

_HINT = "What may be shown of the key."
ScopeName = Literal[SCOPES]  # type: ignore[valid-type]
_NO_END = "Null where the key has no end."


class PreviousKey(msgspec.Struct, frozen=True):
    """The key that a rotation replaced, and when it ends."""

    id: Identifier
    expires_at: Timestamp


class KeyItem(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it may be shown."""

    id: Identifier
    name: Annotated[str, Meta(examples=["Storefront"])]
    type: KeyType
    hint: Annotated[str, Meta(description=_HINT, examples=["sk_live_…x7Qd"])]
    scopes: Annotated[
        list[ScopeName] | None,
        Meta(description="Null where it carries all that its owner has.", examples=[None]),
    ]
    networks: Annotated[
        list[str] | None,
        Meta(description="Where it may be used; null for anywhere.", examples=[["203.0.113.0/24"]]),
    ]
    created_at: Timestamp
    expires_at: Annotated[Timestamp | None, Meta(description=_NO_END)]
    last_used_at: Timestamp | None
    status: Status


class SuccessorKey(KeyItem, frozen=True, kw_only=True):
    """A key that came of a rotation."""

    previous_key: PreviousKey


def key_item(key: ApiKey, now: int) -> KeyItem:
    """A key as it stands at `now`, in epoch milliseconds."""
    return KeyItem(**_facts(key, now))


def _facts(key: ApiKey, now: int) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "type": key.type,
        "hint": key.hint,
        "scopes": in_order(key.scopes),
        "networks": None if key.networks is None else list(key.networks),
        "created_at": timestamp(key.created_at),
        "expires_at": _time(key.expires_at),
        "last_used_at": _time(key.last_used_at),
        "status": status(key, now),
    }


def in_order(scopes: frozenset[str] | None) -> list[str] | None:
    """Scopes as they are listed, the harmless ones first."""
    return None if scopes is None else [scope for scope in SCOPES if scope in scopes]


def successor_key(key: ApiKey, previous: PreviousKey, now: int) -> SuccessorKey:
    """The successor of a rotated key as it stands at `now`."""
    return SuccessorKey(**_facts(key, now), previous_key=previous)


def _time(at: int | None) -> str | None:
    return None if at is None else timestamp(at)


class RotatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """The successor of a rotated key; `key` is shown this once."""

    id: Identifier
    name: Annotated[str, Meta(examples=["Storefront"])]
    type: KeyType
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
    hint: Annotated[str, Meta(description=_HINT, examples=["sk_live_…x7Qd"])]
    created_at: Timestamp
    expires_at: Annotated[Timestamp | None, Meta(description=_NO_END)]
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
        expires_at=_time(successor.expires_at),
        previous_key=PreviousKey(previous_id, timestamp(previous_end)),
    )
