"""Mails about webhooks."""

from portico.domain.webhooks import FAILING_DAYS, RECEIVER_GONE, Webhook
from portico.services.environment import Environment
from portico.services.letters import Kind, tell


async def tell_admins(env: Environment, webhook: Webhook, reason: str) -> None:
    """Tells every admin by mail that Portico has disabled a webhook, and why. Raises
    `Unavailable`."""
    kind: Kind = "webhook-gone" if reason == RECEIVER_GONE else "webhook-failing"
    page = f"{env.addresses.dashboard}/webhooks/{webhook.id}"
    for admin in await env.users.admins():
        tell(
            env,
            admin,
            kind,
            id=str(webhook.id),
            url=webhook.url,
            days=str(FAILING_DAYS),
            page=page,
        )
