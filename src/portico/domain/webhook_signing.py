"""Signatures of deliveries: Standard Webhooks, the symmetric scheme.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from hmac import digest

from portico.domain.errors import BrokenRule
from portico.domain.secrets import RANDOM_BYTES, Random

SECRET = "whsec_"  # noqa: S105 - the prefix of one
SHORTEST, LONGEST = 24, 64
"""How many bytes a secret may have."""


def mint_webhook_secret(random: Random) -> str:
    """A new webhook secret from 32 random bytes."""
    return SECRET + b64encode(random(RANDOM_BYTES)).decode()


def webhook_secret(text: str) -> str:
    """Accepts a secret of 24 to 64 bytes in the form of Standard Webhooks. Raises `BrokenRule`."""
    try:
        key = b64decode(text.removeprefix(SECRET), validate=True)
    except ValueError:
        key = b""
    if not (text.startswith(SECRET) and SHORTEST <= len(key) <= LONGEST):
        raise BrokenRule(f"must be {SECRET} and {SHORTEST} to {LONGEST} bytes in base64")
    return text


def signed_headers(
    secrets: Sequence[str], message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """The headers that sign a delivery with each of its webhook's secrets.

    `message_id` is the same in every attempt, `timestamp` (epoch seconds) is that of this attempt.
    """
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_signature(secret, content) for secret in secrets),
    }


def _signature(secret: str, content: bytes) -> str:
    key = b64decode(secret.removeprefix(SECRET))
    return f"v1,{b64encode(digest(key, content, 'sha256')).decode()}"
