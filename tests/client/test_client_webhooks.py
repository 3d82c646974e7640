"""Deliveries: what the published library and the server sign is verified, and nothing else."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from decimal import Decimal
from email.message import Message
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from client.scripted import CASES
from portico.domain.webhook_signing import mint_webhook_secret, signed_headers
from portico_client import Event, InvalidDelivery, verify_webhook

NOW = 1_800_000_000
SECRET = mint_webhook_secret(bytes(range(32)))
OTHER = mint_webhook_secret(bytes(32))
EVENT = {
    "id": 17,
    "type": "product.updated",
    "timestamp": "2026-03-15T12:00:00.000Z",
    "data": {"id": 3, "name": "Désk lamp", "price": 19.95},
    "previous": {"price": 24.5},
}
BODY = json.dumps(EVENT).encode()


def clock() -> float:
    """The time, which stands still."""
    return NOW


def signed(body: bytes = BODY, at: int = NOW, secrets: tuple[str, ...] = (SECRET,)) -> Any:
    """The headers with which the server sends a body."""
    return signed_headers(secrets, "evt_17", at, body)


def refused(headers: Any, body: bytes = BODY, **options: Any) -> str:
    """Why a delivery is not believed."""
    with pytest.raises(InvalidDelivery) as refusal:
        verify_webhook(headers, body, SECRET, clock=clock, **options)
    return str(refusal.value)


def test_what_the_server_signs_is_the_event_that_it_sent() -> None:
    event = verify_webhook(signed(), BODY, SECRET, clock=clock)
    assert event == Event(
        17,
        "product.updated",
        datetime(2026, 3, 15, 12, tzinfo=UTC),
        {"id": 3, "name": "Désk lamp", "price": Decimal("19.95")},
        {"price": Decimal("24.5")},
    )


def test_an_event_without_old_values_has_none() -> None:
    body = json.dumps({**EVENT, "type": "ping", "data": {}, "newer": 1}).replace("previous", "_")
    event = verify_webhook(signed(body.encode()), body.encode(), SECRET, clock=clock)
    assert (event.type, event.previous) == ("ping", None)


@CASES
@given(st.binary(min_size=24, max_size=64), st.text(st.characters(codec="utf-8")), st.integers(1))
def test_what_the_published_library_signs_is_verified(key: bytes, name: str, id_: int) -> None:
    secret = f"whsec_{b64encode(key).decode()}"
    body = json.dumps({**EVENT, "data": {"name": name}}, ensure_ascii=False)
    signature = Webhook(secret).sign(f"evt_{id_}", datetime.fromtimestamp(NOW, UTC), body)
    headers = {
        "webhook-id": f"evt_{id_}",
        "webhook-timestamp": str(NOW),
        "webhook-signature": signature,
    }
    event = verify_webhook(headers, body.encode(), secret, clock=clock)
    assert event.data == {"name": name}


def test_headers_are_taken_as_frameworks_have_them() -> None:
    message = Message()
    for name, value in signed().items():
        message[name.title()] = value
    upper = {name.upper(): value for name, value in signed().items()}
    for headers in (message, upper, httpx.Headers(signed())):
        assert verify_webhook(headers, BODY, SECRET, clock=clock).id == 17


def test_either_secret_verifies_while_one_replaces_the_other() -> None:
    both = signed(secrets=(OTHER, SECRET))
    assert verify_webhook(both, BODY, SECRET, clock=clock).id == 17
    assert verify_webhook(both, BODY, OTHER, clock=clock).id == 17
    for secrets in ([SECRET, OTHER], (OTHER, SECRET)):
        assert verify_webhook(signed(), BODY, secrets, clock=clock).id == 17
    assert "signatures" in refused(signed(secrets=(OTHER,)))


def test_signatures_of_other_kinds_are_passed_over() -> None:
    right = signed()["webhook-signature"]
    for others in ("v1a,AAAA", "v2", "nonsense", "v1,", "é", "\udc80", "\ud800", "v1,AAAA v1,é"):
        headers = {**signed(), "webhook-signature": f"{others} {right}"}
        assert verify_webhook(headers, BODY, SECRET, clock=clock).id == 17
        assert "signatures" in refused({**headers, "webhook-signature": others})


@pytest.mark.parametrize("seconds", [-300, 300])
def test_a_delivery_holds_for_five_minutes_before_and_after(seconds: int) -> None:
    assert verify_webhook(signed(at=NOW + seconds), BODY, SECRET, clock=clock).id == 17
    late = signed(at=NOW + seconds + (1 if seconds > 0 else -1))
    assert refused(late) == "its timestamp is more than 300 seconds from now"
    assert verify_webhook(late, BODY, SECRET, 301, clock=clock).id == 17


def test_the_time_is_that_of_the_machine_unless_given() -> None:
    at = int(datetime.now(UTC).timestamp())
    assert verify_webhook(signed(at=at), BODY, SECRET).id == 17
    with pytest.raises(InvalidDelivery, match="timestamp"):
        verify_webhook(signed(at=at - 600), BODY, SECRET)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_every_header_counts(name: str) -> None:
    headers = signed()
    assert refused({**headers, name: ""}) == f"it has no {name}"
    del headers[name]
    assert refused(headers) == f"it has no {name}"


@pytest.mark.parametrize("time", ["soon", "-1", "1e9", "1.5", "٣", " 1", "9" * 20, "9" * 5000])
def test_a_timestamp_that_is_none_is_refused(time: str) -> None:
    assert refused({**signed(), "webhook-timestamp": time}) == "its timestamp is no time"


def test_nothing_signed_can_be_changed() -> None:
    assert "signatures" in refused({**signed(), "webhook-id": "evt_18"})
    assert "signatures" in refused({**signed(), "webhook-timestamp": str(NOW - 1)})
    assert "signatures" in refused(signed(), BODY + b" ")


@CASES
@given(st.integers(0, len(BODY) - 1), st.integers(0, 7))
def test_no_bit_of_a_body_can_be_changed(place: int, bit: int) -> None:
    changed = bytearray(BODY)
    changed[place] ^= 1 << bit
    assert "signatures" in refused(signed(), bytes(changed))


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000])
def test_what_is_signed_and_no_event_is_refused(body: bytes) -> None:
    assert refused(signed(body), body) == "it is signed, and no event"


@pytest.mark.parametrize(
    "secret",
    [
        "",
        [],
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
        verify_webhook(signed(), BODY, secret, clock=clock)
    assert SECRET[6:-1] not in str(wrong.value)
