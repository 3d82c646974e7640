"""Notes about webhooks."""

from portico.domain.events.base import Details, Event, changed_values
from portico.domain.webhooks import Webhook


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

    action = "webhook.changed"

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
