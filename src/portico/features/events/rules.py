"""Notes about webhooks."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from hmac import digest

from portico.core.errors import BrokenRule
from portico.core.events import Details, Event, Webhook, changed_values
from portico.core.secrets import RANDOM_BYTES, Random


class OfWebhook(Event, frozen=True):
    """Something that happened to a webhook; `webhook` is its new state."""

    target = "webhook"

    webhook: Webhook

    @property
    def target_id(self) -> int:
        return self.webhook.id


class WebhookCreated(OfWebhook, frozen=True):
    """A webhook was created."""

    action = "webhook.created"

    @property
    def details(self) -> Details:
        """Its URL, and the types that it gets."""
        return {"url": self.webhook.url, "types": list(self.webhook.types)}


class WebhookChanged(OfWebhook, frozen=True):
    """Values of a webhook changed."""

    action = "webhook.updated"

    before: Webhook

    @property
    def details(self) -> Details:
        """The old and the new values."""
        return changed_values(self.before, self.webhook, ("url", "types", "description"))


class WebhookEnabled(OfWebhook, frozen=True):
    """A webhook was enabled again."""

    action = "webhook.enabled"


class WebhookDisabled(OfWebhook, frozen=True):
    """A webhook was disabled."""

    action = "webhook.disabled"

    @property
    def details(self) -> Details:
        """The reason."""
        return {"reason": self.webhook.disabled_reason}


class WebhookSecretRotated(OfWebhook, frozen=True):
    """A webhook got a new secret."""

    action = "webhook.secret_rotated"


class WebhookTested(OfWebhook, frozen=True):
    """A test delivery was requested."""

    action = "webhook.tested"


class WebhookRedelivered(OfWebhook, frozen=True):
    """Another delivery of an event was requested."""

    action = "webhook.redelivered"

    event_id: int

    @property
    def details(self) -> Details:
        """The event."""
        return {"event_id": self.event_id}


class WebhookDeleted(OfWebhook, frozen=True):
    """A webhook was deleted."""

    action = "webhook.deleted"

    @property
    def details(self) -> Details:
        """Its URL."""
        return {"url": self.webhook.url}


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
