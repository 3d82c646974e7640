"""What happens to webhooks."""

from portico.domain.events.base import Details, Event, moved
from portico.domain.webhooks import Webhook


class OfWebhook(Event, frozen=True):
    """Something that happened to a webhook, which is as it is now."""

    target = "webhook"

    webhook: Webhook

    @property
    def target_id(self) -> int:
        return self.webhook.id


class WebhookCreated(OfWebhook, frozen=True):
    """A webhook was made."""

    action = "webhook.created"

    @property
    def details(self) -> Details:
        """Where it leads, and what it is told."""
        return {"url": self.webhook.url, "types": list(self.webhook.types)}


class WebhookChanged(OfWebhook, frozen=True):
    """Values of a webhook changed."""

    action = "webhook.changed"

    before: Webhook

    @property
    def details(self) -> Details:
        """The old and the new values."""
        return moved(self.before, self.webhook, ("url", "types", "description"))


class WebhookEnabled(OfWebhook, frozen=True):
    """A webhook is sent events again."""

    action = "webhook.enabled"


class WebhookDisabled(OfWebhook, frozen=True):
    """A webhook is sent nothing any more."""

    action = "webhook.disabled"

    @property
    def details(self) -> Details:
        """Why."""
        return {"reason": self.webhook.disabled_reason}


class WebhookSecretRotated(OfWebhook, frozen=True):
    """A webhook got another secret."""

    action = "webhook.secret_rotated"


class WebhookTested(OfWebhook, frozen=True):
    """A test delivery was asked for."""

    action = "webhook.tested"


class WebhookRedelivered(OfWebhook, frozen=True):
    """A delivery was asked for once more."""

    action = "webhook.redelivered"

    event_id: int

    @property
    def details(self) -> Details:
        """Of which event."""
        return {"event_id": self.event_id}


class WebhookDeleted(OfWebhook, frozen=True):
    """A webhook is gone."""

    action = "webhook.deleted"

    @property
    def details(self) -> Details:
        """Where it led."""
        return {"url": self.webhook.url}
