"""Mails about webhooks."""

from functools import partial
from html import escape

from portico.domain.users import User
from portico.domain.webhooks import FAILING_DAYS, RECEIVER_GONE, Webhook
from portico.mail.protocol import Letter
from portico.services.environment import Environment

_SUBJECT = "A webhook was disabled"
_WHAT_NEXT = (
    "What was waiting to be delivered was given up. Once the receiver works again, enable the"
    " webhook: it is then told of what happens from then on, and GET /events has what it missed."
)


async def tell_admins(env: Environment, webhook: Webhook, reason: str) -> None:
    """Tells every admin by mail that Portico has disabled a webhook, and why. Raises
    `Unavailable`."""
    for admin in await env.users.admins():
        env.mail_queue.post(_SUBJECT, partial(_letter, env, webhook, reason, admin))


async def _letter(env: Environment, webhook: Webhook, reason: str, admin: User) -> Letter:
    why = (
        "its receiver answered 410 Gone: it wants no more"
        if reason == RECEIVER_GONE
        else f"for {FAILING_DAYS} days not one delivery succeeded"
    )
    page = f"{env.addresses.dashboard}/webhooks/{webhook.id}"
    url = webhook.url.encode("ascii", "backslashreplace").decode()
    paragraphs = (
        f"Portico has disabled the webhook {webhook.id}, which leads to {url}, because {why}.",
        _WHAT_NEXT,
        page,
    )
    text = "\n\n".join(("Hello,", *paragraphs, "Portico\n"))
    html = "\n".join(
        (
            f'<!doctype html><html lang="en"><head><title>{_SUBJECT}</title></head><body>',
            *(f"<p>{escape(one)}</p>" for one in ("Hello,", *paragraphs, "Portico")),
            "</body></html>\n",
        )
    )
    return Letter(
        id=env.random(16).hex(),
        at=env.clock(),
        user_id=admin.id,
        to=admin.email,
        subject=_SUBJECT,
        text=text,
        html=html,
    )
