"""Deliveries of webhooks as the server signs them."""

import contextlib
import json
import socket
from typing import Any

from operating import TIMEOUT_SECONDS
from portico.features.events.rules import mint_webhook_secret, signed_headers

NOW = 1_800_000_000
SECRET = mint_webhook_secret(lambda _: bytes(range(32)))
EVENT = {
    "id": 17,
    "type": "product.updated",
    "timestamp": "2026-03-15T12:00:00.000Z",
    "data": {
        "id": 3,
        "name": "Désk lamp",
        "description": "",
        "category": "lighting",
        "price": 19.95,
        "currency": "USD",
        "in_stock": True,
        "stock_quantity": 12,
        "status": "active",
        "created_at": "2026-03-15T12:00:00.000Z",
        "updated_at": "2026-03-15T12:00:00.000Z",
        "images": [],
        "metadata": {},
    },
    "previous": {"price": 24.5},
}
BODY = json.dumps(EVENT).encode()
PING = {"id": 18, "type": "ping", "timestamp": EVENT["timestamp"], "data": {"webhook_id": 1}}
UNFINISHED = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nabc"


def signed(body: bytes = BODY, at: int = NOW, secrets: tuple[str, ...] = (SECRET,)) -> Any:
    """The headers with which the server sends a body."""
    return signed_headers(secrets, "evt_17", at, body)


def left_unfinished(port: int) -> None:
    """Sends a receiver the beginning of a delivery that nobody has signed, and waits for what it
    makes of the end."""
    with socket.create_connection(("localhost", port), TIMEOUT_SECONDS) as sender:
        sender.sendall(UNFINISHED)
        sender.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while sender.recv(4096):
                pass
