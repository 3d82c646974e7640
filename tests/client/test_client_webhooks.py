"""Webhooks, and their deliveries: what the published library and the server sign is verified."""

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from client.delivering import BODY, NOW, SECRET, signed
from client.scripted import CASES, KEY, PLACE, Scripted, answer
from portico_client import (
    Client,
    Conflict,
    InvalidDelivery,
    NotFound,
    PreconditionFailed,
    ValidationError,
    verify_webhook,
)

HERE = "https://shop.example/hooks"


def clock() -> float:
    return NOW


@CASES
@given(st.binary(min_size=24, max_size=64), st.integers(1))
def test_what_the_published_library_signs_is_verified(key: bytes, id_: int) -> None:
    secret = f"whsec_{b64encode(key).decode()}"
    signature = Webhook(secret).sign(f"evt_{id_}", datetime.fromtimestamp(NOW, UTC), BODY.decode())
    headers = {"webhook-id": f"evt_{id_}", "webhook-timestamp": str(NOW)}
    headers["webhook-signature"] = signature
    assert verify_webhook(BODY, headers, secret, clock=clock).id == 17


def test_the_time_is_that_of_the_machine_and_a_body_is_bytes() -> None:
    at = int(datetime.now(UTC).timestamp())
    assert verify_webhook(BODY, signed(at=at), SECRET).id == 17
    with pytest.raises(InvalidDelivery, match="timestamp"):
        verify_webhook(BODY, signed(at=at - 600), SECRET)
    body: Any = BODY.decode()
    with pytest.raises(TypeError, match="bytes as they came, not a str"):
        verify_webhook(body, signed(), SECRET, clock=clock)


@pytest.mark.parametrize("secret", [None, [None], SECRET.encode()])
def test_secret_that_is_no_text_is_refused(secret: Any) -> None:
    with pytest.raises(ValueError, match="a webhook's secret"):
        verify_webhook(BODY, signed(), secret, clock=clock)


def test_a_webhook_is_made_read_changed_and_deleted(client: Client) -> None:
    made = client.webhooks.create(url=HERE, types=["product.*"], description="Shop")
    assert made.secret not in repr(made)
    assert verify_webhook(BODY, signed(secrets=(made.secret,)), made.secret, clock=clock).id == 17
    read = client.webhooks.get(made.id)
    assert (read.url, read.types, read.description) == (HERE, ("product.*",), "Shop")
    assert read in client.webhooks.list()
    changed = client.webhooks.update(made.id, status="disabled", if_match=made.etag)
    assert (changed.status, changed.disabled_reason) == ("disabled", "by hand")
    with pytest.raises(Conflict):
        client.webhooks.test(made.id)
    assert client.webhooks.update(made.id, status="enabled").disabled_reason is None
    client.webhooks.test(made.id)
    rotated = client.webhooks.rotate_secret(made.id)
    assert (rotated.id, rotated.secret != made.secret) == (made.id, True)
    with pytest.raises(PreconditionFailed):
        client.webhooks.update(made.id, types=["user.*"], if_match=changed.etag)
    with pytest.raises(NotFound):
        client.webhooks.redeliver(made.id, 2**40)
    client.webhooks.delete(made.id, if_match=rotated.etag)
    with pytest.raises(NotFound):
        client.webhooks.deliveries(made.id).page(1)
    with pytest.raises(ValidationError):
        client.webhooks.create(url="https://127.0.0.1/hooks", types=["nothing"])


def test_deliveries_are_read_page_after_page_and_sent_again() -> None:
    def page(*ids: int, **headers: str) -> Any:
        facts = {"event_id": 17, "type": "ping", "status": "pending", "attempts": 1}
        facts |= {"next_attempt_at": "2026-03-15T12:00:05.000Z", "last_status": 500}
        facts |= {"last_error": "it answered 500", "last_milliseconds": 31}
        facts |= {"created_at": "2026-03-15T12:00:00.000Z"}
        place = {"page": 1, "limit": 2, "total_items": 3, "total_pages": 2}
        data = [{"id": id_, **facts} for id_ in ids]
        return answer(200, {"data": data, "pagination": place}, **headers)

    link = f'<{PLACE}/webhooks/5/deliveries?limit=2&cursor=behind-8>; rel="next"'
    script = Scripted(page(9, 8, link=link), page(7), answer(202, {"message": "Again."}))
    with Client(KEY, base_url=PLACE, transport=script) as client:
        first, *others = client.webhooks.deliveries(5, limit=2)
        client.webhooks.redeliver(5, first.id)
    assert [one.id for one in (first, *others)] == [9, 8, 7]
    assert first.next_attempt_at == datetime(2026, 3, 15, 12, 0, 5, tzinfo=UTC)
    assert script.requests[-1].url.path == "/v1/webhooks/5/deliveries/9/redeliver"
    assert script.requests[-1].headers["idempotency-key"]
