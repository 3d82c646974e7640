"""Mails about webhooks."""

from portico.domain.webhooks import FAILING_DAYS, RECEIVER_GONE, Webhook
from portico.services.environment import Environment
from portico.services.letters import tell

_WHAT_NEXT = (
    "What was waiting to be delivered was given up. Once the receiver works again, enable the"
    " webhook: it is then told of what happens from then on, and GET /events has what it missed."
)


async def tell_admins(env: Environment, webhook: Webhook, reason: str) -> None:
    """Tells every admin by mail that Portico has disabled a webhook, and why. Raises
    `Unavailable`."""
    why = (
        "its receiver answered 410 Gone: it wants no more"
        if reason == RECEIVER_GONE
        else f"for {FAILING_DAYS} days not one delivery succeeded"
    )
    what = f"Portico has disabled the webhook {webhook.id}, which leads to {webhook.url}"
    page = f"{env.addresses.dashboard}/webhooks/{webhook.id}"
    for admin in await env.users.admins():
        tell(env, admin, "A webhook was disabled", f"{what}, because {why}.", _WHAT_NEXT, page)
