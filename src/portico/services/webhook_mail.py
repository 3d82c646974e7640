"""Mails about webhooks."""

from collections.abc import Sequence

from portico.domain.users import User
from portico.domain.webhooks import FAILING_DAYS, RECEIVER_GONE, Webhook
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.letters import Kind, tell


async def tell_admins(
    env: Environment, change: Change, admins: Sequence[User], webhook: Webhook, reason: str
) -> None:
    """Tells the admins by mail that Portico has disabled a webhook, and why."""
    kind: Kind = "webhook-gone" if reason == RECEIVER_GONE else "webhook-failing"
    page = f"{env.addresses.dashboard}/webhooks/{webhook.id}"
    for admin in admins:
        await tell(
            env,
            change,
            admin,
            kind,
            id=str(webhook.id),
            url=webhook.url,
            days=str(FAILING_DAYS),
            page=page,
        )
