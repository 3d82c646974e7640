"""The operations on webhooks: which request each sends, and how it reads the response."""

import operator
from collections.abc import Mapping
from typing import Any

from portico_client.calls import (
    JSON,
    Call,
    Pages,
    body,
    condition,
    is_replayed,
    key_header,
    nothing,
    tagged,
)
from portico_client.errors import SecretLost
from portico_client.flow import Response
from portico_client.models import Delivery, Webhook, WebhookWithSecret
from portico_client.reading import data_of


def list_webhooks() -> Call[tuple[Webhook, ...]]:
    """Reads all webhooks."""
    return Call("GET", "/webhooks", _read_all)


def get_webhook(webhook_id: int) -> Call[Webhook]:
    """Reads one."""
    return Call("GET", _at(webhook_id), _read_one)


def create_webhook(
    fields: Mapping[str, Any], idempotency_key: str | None
) -> Call[WebhookWithSecret]:
    """Creates one."""
    headers = {**JSON, **key_header(idempotency_key)}
    return Call("POST", "/webhooks", _read_secret, headers, body(fields))


def update_webhook(
    webhook_id: int, changes: Mapping[str, Any], if_match: str | None
) -> Call[Webhook]:
    """Changes one."""
    headers = {**JSON, **condition(if_match)}
    return Call("PATCH", _at(webhook_id), _read_one, headers, body(changes))


def delete_webhook(webhook_id: int, if_match: str | None) -> Call[None]:
    """Deletes one."""
    return Call("DELETE", _at(webhook_id), nothing, condition(if_match))


def rotate_secret(webhook_id: int) -> Call[WebhookWithSecret]:
    """Gives one a new secret."""
    return Call("POST", f"{_at(webhook_id)}/rotate-secret", _read_secret, key_header(None))


def test_webhook(webhook_id: int) -> Call[None]:
    """Sends one a `ping`."""
    return Call("POST", f"{_at(webhook_id)}/test", nothing, key_header(None))


def deliveries_of(webhook_id: int) -> Pages[Delivery]:
    """The list of one's deliveries."""
    return Pages(f"{_at(webhook_id)}/deliveries", Delivery)


def redeliver(webhook_id: int, delivery_id: int) -> Call[None]:
    """Sends the event of a delivery again."""
    path = f"{_at(webhook_id)}/deliveries/{operator.index(delivery_id)}/redeliver"
    return Call("POST", path, nothing, key_header(None))


def _at(webhook_id: int) -> str:
    return f"/webhooks/{operator.index(webhook_id)}"


def _read_all(response: Response) -> tuple[Webhook, ...]:
    webhooks: tuple[Webhook, ...] = data_of(response, tuple[Webhook, ...])
    return webhooks


def _read_one(response: Response) -> Webhook:
    webhook: Webhook = tagged(response, Webhook)
    return webhook


def _read_secret(response: Response) -> WebhookWithSecret:
    if is_replayed(response):
        id_ = _read_one(response).id
        raise SecretLost(f"webhook {id_} has a new secret, but the response was lost: rotate it")
    webhook: WebhookWithSecret = tagged(response, WebhookWithSecret)
    return webhook
