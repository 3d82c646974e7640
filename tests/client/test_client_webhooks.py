"""Webhooks, and their deliveries: what the published library and the server sign is verified."""

import contextlib
import json
import socket
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from email.message import Message
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from client.scripted import CASES, KEY, PLACE, Scripted, answer
from operating import PATIENCE_SECONDS
from portico.features.events.rules import mint_webhook_secret, signed_headers
from portico_client import (
    AsyncClient,
    Client,
    Conflict,
    InvalidDelivery,
    NotFound,
    PreconditionFailed,
    Product,
    ProductUpdatedEvent,
    SecretLost,
    ValidationError,
    verify_webhook,
)
from portico_client.client import Webhooks

NOW = 1_800_000_000
SECRET = mint_webhook_secret(lambda _: bytes(range(32)))
OTHER = mint_webhook_secret(bytes)
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
UNFINISHED = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nabc"


def clock() -> float:
    """The time, which stands still."""
    return NOW


def signed(body: bytes = BODY, at: int = NOW, secrets: tuple[str, ...] = (SECRET,)) -> Any:
    """The headers with which the server sends a body."""
    return signed_headers(secrets, "evt_17", at, body)


PING = {"id": 18, "type": "ping", "timestamp": EVENT["timestamp"], "data": {"webhook_id": 1}}
"""What `webhooks.test` has the server send."""


def left_unfinished(port: int) -> None:
    """Sends a receiver the beginning of a delivery that nobody has signed, and waits for what it
    makes of the end."""
    with socket.create_connection(("localhost", port), PATIENCE_SECONDS) as sender:
        sender.sendall(UNFINISHED)
        sender.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while sender.recv(4096):
                pass


def refused(headers: Any, body: bytes = BODY, **options: Any) -> str:
    """Why a delivery is not believed."""
    with pytest.raises(InvalidDelivery) as refusal:
        verify_webhook(body, headers, SECRET, clock=clock, **options)
    return str(refusal.value)


def test_what_the_server_signs_is_the_event_that_it_sent() -> None:
    event = verify_webhook(BODY, signed(), SECRET, clock=clock)
    at = datetime(2026, 3, 15, 12, tzinfo=UTC)
    lamp = Product(
        id=3,
        name="Désk lamp",
        description="",
        category="lighting",
        price=Decimal("19.95"),
        currency="USD",
        in_stock=True,
        stock_quantity=12,
        status="active",
        created_at=at,
        updated_at=at,
        images=(),
        metadata={},
    )
    told = ProductUpdatedEvent(17, "product.updated", at, lamp, {"price": Decimal("24.5")})
    assert event == told


def test_an_event_without_old_values_has_none() -> None:
    body = json.dumps({**PING, "newer": 1}).encode()
    event = verify_webhook(body, signed(body), SECRET, clock=clock)
    assert (event.type, event.previous) == ("ping", None)


@CASES
@given(st.binary(min_size=24, max_size=64), st.text(st.characters(codec="utf-8")), st.integers(1))
def test_what_the_published_library_signs_is_verified(key: bytes, name: str, id_: int) -> None:
    secret = f"whsec_{b64encode(key).decode()}"
    body = json.dumps({**EVENT, "type": "lamp.lit", "data": {"name": name}}, ensure_ascii=False)
    signature = Webhook(secret).sign(f"evt_{id_}", datetime.fromtimestamp(NOW, UTC), body)
    headers = {
        "webhook-id": f"evt_{id_}",
        "webhook-timestamp": str(NOW),
        "webhook-signature": signature,
    }
    event = verify_webhook(body.encode(), headers, secret, clock=clock)
    assert event.data == {"name": name}


def test_headers_are_taken_as_frameworks_have_them() -> None:
    message = Message()
    for name, value in signed().items():
        message[name.title()] = value
    upper = {name.upper(): value for name, value in signed().items()}
    for headers in (message, upper, httpx.Headers(signed())):
        assert verify_webhook(BODY, headers, SECRET, clock=clock).id == 17


def test_either_secret_verifies_while_one_replaces_the_other() -> None:
    both = signed(secrets=(OTHER, SECRET))
    assert verify_webhook(BODY, both, SECRET, clock=clock).id == 17
    assert verify_webhook(BODY, both, OTHER, clock=clock).id == 17
    for secrets in ([SECRET, OTHER], (OTHER, SECRET)):
        assert verify_webhook(BODY, signed(), secrets, clock=clock).id == 17
    assert "signatures" in refused(signed(secrets=(OTHER,)))


def test_signatures_of_other_kinds_are_passed_over() -> None:
    right = signed()["webhook-signature"]
    for others in ("v1a,AAAA", "v2", "nonsense", "v1,", "é", "\udc80", "\ud800", "v1,AAAA v1,é"):
        headers = {**signed(), "webhook-signature": f"{others} {right}"}
        assert verify_webhook(BODY, headers, SECRET, clock=clock).id == 17
        assert "signatures" in refused({**headers, "webhook-signature": others})


def test_the_time_is_that_of_the_machine_unless_given() -> None:
    at = int(datetime.now(UTC).timestamp())
    assert verify_webhook(BODY, signed(at=at), SECRET).id == 17
    with pytest.raises(InvalidDelivery, match="timestamp"):
        verify_webhook(BODY, signed(at=at - 600), SECRET)


@CASES
@given(st.integers(0, len(BODY) - 1), st.integers(0, 7))
def test_no_bit_of_a_body_can_be_changed(place: int, bit: int) -> None:
    changed = bytearray(BODY)
    changed[place] ^= 1 << bit
    assert "signatures" in refused(signed(), bytes(changed))


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000, b"1e" + b"9" * 20, b"9" * 5_000],
)
def test_what_is_signed_and_no_event_is_refused(body: bytes) -> None:
    assert refused(signed(body), body) == "it is signed but not an event"


def test_a_body_that_was_read_as_text_is_told() -> None:
    body: Any = BODY.decode()
    with pytest.raises(TypeError, match="bytes as they came, not a str"):
        verify_webhook(body, signed(), SECRET, clock=clock)


@pytest.mark.parametrize(
    "secret",
    [
        None,
        "",
        [],
        [None],
        SECRET.encode(),
        "whsec_",
        SECRET.removeprefix("whsec_"),
        SECRET[:-1],
        f"{SECRET}\n",
        f"whsec_é{SECRET[7:]}",
        f"whsec_{b64encode(bytes(23)).decode()}",
        f"whsec_{b64encode(bytes(65)).decode()}",
        [SECRET, "whsec_AAAA"],
    ],
)
def test_what_is_no_secret_is_told_without_showing_it(secret: Any) -> None:
    with pytest.raises(ValueError, match="secret") as wrong:
        verify_webhook(BODY, signed(), secret, clock=clock)
    assert SECRET[6:-1] not in str(wrong.value)


HOOK = {
    "id": 5,
    "url": "https://shop.example/hooks",
    "types": ["product.*"],
    "description": "",
    "status": "enabled",
    "disabled_reason": None,
    "created_at": "2026-03-15T12:00:00.000Z",
    "updated_at": "2026-03-15T12:00:00.000Z",
}


def delivery(id_: int) -> dict[str, Any]:
    """A delivery as the service shows it."""
    return {
        "id": id_,
        "event_id": 17,
        "type": "product.updated",
        "status": "pending",
        "attempts": 1,
        "next_attempt_at": "2026-03-15T12:00:05.000Z",
        "last_status": 500,
        "last_error": "it answered 500",
        "last_milliseconds": 31,
        "created_at": "2026-03-15T12:00:00.000Z",
    }


def test_a_webhook_is_made_read_changed_and_deleted(client: Client) -> None:
    made = client.webhooks.create(
        url="https://shop.example/hooks", types=["product.*", "user.created"], description="Shop"
    )
    assert made.secret not in repr(made)
    assert verify_webhook(BODY, signed(secrets=(made.secret,)), made.secret, clock=clock).id == 17
    read = client.webhooks.get(made.id)
    assert (read.url, read.types, read.description) == (
        "https://shop.example/hooks",
        ("product.*", "user.created"),
        "Shop",
    )
    assert read in client.webhooks.list()
    changed = client.webhooks.update(made.id, types=["*"], status="disabled")
    assert (changed.types, changed.status, changed.disabled_reason) == (
        ("*",),
        "disabled",
        "by hand",
    )
    with pytest.raises(Conflict):
        client.webhooks.test(made.id)
    assert client.webhooks.update(made.id, status="enabled").disabled_reason is None
    client.webhooks.test(made.id)
    rotated = client.webhooks.rotate_secret(made.id)
    assert (rotated.id, rotated.secret != made.secret) == (made.id, True)
    with pytest.raises(NotFound):
        client.webhooks.redeliver(made.id, 2**40)
    client.webhooks.delete(made.id)
    with pytest.raises(NotFound):
        client.webhooks.get(made.id)
    with pytest.raises(NotFound):
        client.webhooks.deliveries(made.id).page(1)
    with pytest.raises(ValidationError):
        client.webhooks.create(url="https://127.0.0.1/hooks", types=["nothing"])


def test_webhooks_are_changed_and_deleted_by_the_etag_that_each_call_leaves(client: Client) -> None:
    made = client.webhooks.create(url="https://shop.example/hooks", types=["*"])
    changed = client.webhooks.update(made.id, description="Shop", if_match=made.etag)
    rotated = client.webhooks.rotate_secret(made.id)
    assert None not in (made.etag, changed.etag, rotated.etag)
    with pytest.raises(PreconditionFailed):
        client.webhooks.update(made.id, types=["user.*"], if_match=changed.etag)
    client.webhooks.update(made.id, types=["user.*"], if_match=rotated.etag)
    with pytest.raises(PreconditionFailed):
        client.webhooks.delete(made.id, if_match=rotated.etag)
    client.webhooks.delete(made.id, if_match=client.webhooks.get(made.id).etag)


async def test_the_asynchronous_face_does_the_same(async_client: AsyncClient) -> None:
    webhooks = async_client.webhooks
    made = await webhooks.create(url="https://shop.example/hooks", types=["*"])
    assert await webhooks.get(made.id) in await webhooks.list()
    changed = await webhooks.update(made.id, description="All", if_match=made.etag)
    assert changed.description == "All"
    assert (await webhooks.rotate_secret(made.id)).secret != made.secret
    await webhooks.test(made.id)
    with pytest.raises(NotFound):
        await webhooks.redeliver(made.id, 2**40)
    with pytest.raises(PreconditionFailed):
        await webhooks.delete(made.id, if_match=made.etag)
    await webhooks.delete(made.id)
    with pytest.raises(NotFound):
        await webhooks.deliveries(made.id).page(1)


def test_deliveries_are_read_page_after_page_and_sent_again() -> None:
    def page(*ids: int, **headers: str) -> Any:
        place = {"page": 1, "limit": 2, "total_items": 3, "total_pages": 2}
        return answer(200, {"data": [*map(delivery, ids)], "pagination": place}, **headers)

    accepted = answer(202, {"message": "It will be delivered again."})
    link = f'<{PLACE}/webhooks/5/deliveries?limit=2&cursor=behind-8>; rel="next"'
    script = Scripted(page(9, 8, link=link), page(7), accepted)
    with Client(KEY, base_url=PLACE, transport=script) as client:
        first, *others = client.webhooks.deliveries(5, limit=2)
        client.webhooks.redeliver(5, first.id)
    assert [one.id for one in (first, *others)] == [9, 8, 7]
    assert first.next_attempt_at == datetime(2026, 3, 15, 12, 0, 5, tzinfo=UTC)
    assert (first.status, first.last_status) == ("pending", 500)
    assert [request.url.path for request in script.requests] == [
        "/v1/webhooks/5/deliveries",
        "/v1/webhooks/5/deliveries",
        "/v1/webhooks/5/deliveries/9/redeliver",
    ]
    assert script.requests[-1].headers["idempotency-key"]


@pytest.mark.parametrize(
    "act",
    [
        lambda webhooks: webhooks.create(url="https://shop.example/hooks", types=["*"]),
        lambda webhooks: webhooks.rotate_secret(5),
    ],
)
def test_a_secret_whose_answer_was_lost_says_so(act: Callable[[Webhooks], object]) -> None:
    replayed = answer(201, {"data": HOOK}, idempotent_replayed="true")
    script = Scripted(httpx.ReadError("lost"), replayed)
    with (
        Client(KEY, base_url=PLACE, transport=script, sleep=lambda _: None) as client,
        pytest.raises(SecretLost, match=r"webhook 5 .* rotate it"),
    ):
        act(client.webhooks)
    first, again = script.requests
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"]


@pytest.mark.parametrize("wrong", ["5", "5/../../users", 1.5, None])
def test_what_is_no_id_is_not_sent(wrong: Any) -> None:
    with Client(KEY, base_url=PLACE, transport=Scripted()) as client:
        for call in (client.webhooks.get, client.webhooks.test, client.webhooks.deliveries):
            with pytest.raises(TypeError):
                call(wrong)
        with pytest.raises(TypeError):
            client.webhooks.redeliver(5, wrong)
