"""Mails that Portico writes: a few short paragraphs each, as text and as HTML."""

import logging
from html import escape

from portico.domain.errors import Unavailable
from portico.domain.users import User
from portico.mail.protocol import Letter
from portico.services.environment import Environment

log = logging.getLogger(__name__)


def letter(env: Environment, user_id: int, to: str, subject: str, *paragraphs: str) -> Letter:
    """A letter to an address; `user_id` is whose it is, 0 where nobody has it yet. A paragraph that
    is an address of a page becomes a link."""
    told = [
        one.encode("ascii", "backslashreplace").decode()
        for one in ("Hello,", *paragraphs, "Portico")
    ]
    html = (
        f'<!doctype html><html lang="en"><head><title>{escape(subject)}</title></head><body>',
        *(f"<p>{_linked(escape(one))}</p>" for one in told),
        "</body></html>\n",
    )
    return Letter(
        id=env.random(16).hex(),
        at=env.clock(),
        user_id=user_id,
        to=to,
        subject=subject,
        text="\n\n".join(told) + "\n",
        html="\n".join(html),
    )


def tell(
    env: Environment, user: User, subject: str, *paragraphs: str, to: str | None = None
) -> None:
    """Tells a user by mail what has happened, `to` another address than theirs where one is given.
    Where too many mails wait, the log has it instead: what has happened stays so.

    In the sandbox only mirrors of accounts are people: the address of anybody else there is made
    up, and may be a stranger's.
    """
    if env.mirror is None and user.account_id is None:
        return

    async def write() -> Letter:
        return letter(env, user.id, to or user.email, subject, *paragraphs)

    try:
        env.mail_queue.post(subject, write)
    except Unavailable as error:
        log.warning("user %d was not told %r: %s", user.id, subject, error.message)


def _linked(paragraph: str) -> str:
    return (
        f'<a href="{paragraph}">{paragraph}</a>' if paragraph.startswith("https://") else paragraph
    )
