"""What signs a delivery, held against the published verifier."""

import json
from base64 import b64encode
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from portico.core.errors import BrokenRule
from portico.features.events.rules import mint_webhook_secret, signed_headers, webhook_secret

SECRET = mint_webhook_secret(lambda _: bytes(range(32)))
ANOTHER = mint_webhook_secret(bytes)


def now() -> int:
    """The present second, which the verifier compares with."""
    return int(datetime.now(UTC).timestamp())


def test_the_example_of_the_specification_is_signed_as_there() -> None:
    headers = signed_headers(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(st.binary(min_size=32, max_size=32), st.integers(1, 2**63 - 1), st.text())
def test_the_published_library_verifies_ours(random: bytes, event_id: int, text: str) -> None:
    secret = mint_webhook_secret(lambda _: random)
    body = json.dumps({"text": text}, ensure_ascii=False).encode()
    headers = signed_headers([secret], f"evt_{event_id}", now(), body)
    assert Webhook(secret).verify(body.decode(), headers) == json.loads(body)


def test_what_was_changed_is_not_verified() -> None:
    headers = signed_headers([SECRET], "evt_1", now(), b"{}")
    for changed in (
        {**headers, "webhook-id": "evt_2"},
        {**headers, "webhook-timestamp": str(now() - 1)},
        signed_headers([ANOTHER], "evt_1", now(), b"{}"),
        signed_headers([SECRET], "evt_1", now(), b"[]"),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify("{}", changed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        b64encode(bytes(32)).decode(),
        f"whsec_{b64encode(bytes(23)).decode()}",
        f"whsec_{b64encode(bytes(65)).decode()}",
        f"whsec_{b64encode(bytes(32)).decode()[:-1]}",
        f"whsec_ {b64encode(bytes(32)).decode()}",
        f"whsec_{b64encode(bytes(32)).decode()}é",
    ],
)
def test_anything_else_is_no_secret(text: str) -> None:
    with pytest.raises(BrokenRule, match="must be whsec_ and 24 to 64 bytes in base64"):
        webhook_secret(text)
