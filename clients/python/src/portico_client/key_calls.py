"""The operations on API keys: which request each sends, and how it reads the response."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portico_client.calls import JSON, Call, Pages, body, is_replayed, key_header, nothing
from portico_client.errors import SecretLost
from portico_client.flow import Response
from portico_client.models import ApiKey, ApiKeyWithSecret, RotatedKey
from portico_client.reading import data_of

KEYS = Pages("/api-keys", ApiKey)


def get_key(key_id: int) -> Call[ApiKey]:
    """Reads one."""
    return Call("GET", _at(key_id), _read_one)


def create_key(fields: Mapping[str, Any], idempotency_key: str | None) -> Call[ApiKeyWithSecret]:
    """Creates one."""
    end = fields.get("expires_at")
    if isinstance(end, datetime):
        fields = {**fields, "expires_at": end.astimezone().isoformat()}
    headers = {**JSON, **key_header(idempotency_key)}
    return Call("POST", "/api-keys", _read_made, headers, body(fields))


def revoke_key(key_id: int) -> Call[None]:
    """Revokes one."""
    return Call("DELETE", _at(key_id), nothing)


def rotate_key() -> Call[RotatedKey]:
    """Replaces the calling API key."""
    return Call("POST", "/api-keys/rotate", _read_rotated, key_header(None))


def _at(key_id: int) -> str:
    return f"/api-keys/{operator.index(key_id)}"


def _read_one(response: Response) -> ApiKey:
    key: ApiKey = data_of(response, ApiKey)
    return key


def _read_made(response: Response) -> ApiKeyWithSecret:
    if is_replayed(response):
        id_ = _read_one(response).id
        raise SecretLost(f"the key {id_} was created, but the response was lost: revoke it")
    key: ApiKeyWithSecret = data_of(response, ApiKeyWithSecret)
    return key


def _read_rotated(response: Response) -> RotatedKey:
    if is_replayed(response):
        hint = data_of(response, _Hinted).hint
        raise SecretLost(f"the key was rotated, but its successor {hint} was lost on the way")
    rotated: RotatedKey = data_of(response, RotatedKey)
    return rotated


@dataclass(frozen=True, slots=True)
class _Hinted:
    hint: str
