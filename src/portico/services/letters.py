"""Mails that Portico writes: a few short paragraphs each, as text and as HTML, in the language of
whoever reads them. The words stand in `mails`, a file for each language."""

import logging
import tomllib
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from ipaddress import ip_address
from typing import Literal, NamedTuple

from portico.domain.agents import Agent
from portico.domain.audit import By
from portico.domain.text import unturned
from portico.domain.times import SECOND
from portico.domain.users import User
from portico.mail.protocol import Letter
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.post import TooMany, Waiting, post

Kind = Literal[
    "reset",
    "verify",
    "new-email",
    "invitation",
    "sign-up",
    "signed-up-before",
    "invited-before",
    "new-password",
    "email-changed",
    "app-added",
    "app-removed",
    "passkey-added",
    "passkey-removed",
    "recovery-codes-renewed",
    "factors-reset",
    "provider-linked",
    "provider-unlinked",
    "suspended",
    "new-device",
    "new-key",
    "rotated-key",
    "key-ends",
    "new-role",
    "webhook-gone",
    "webhook-failing",
]
"""What a mail tells: the name of its text in every language."""

SWITCHES: dict[Kind, str] = {
    "new-device": "sign-ins",
    "new-key": "keys",
    "rotated-key": "keys",
    "key-ends": "expiring-keys",
    "new-role": "roles",
}
"""Which of `MAILS` a kind belongs to; the others cannot be switched off."""

LANGUAGES = ("en", "de")
"""What there are texts in; the first one is for whoever reads none of them."""

# Links are long, without a space. Some programs leave out what a body itself is styled with.
_STYLE = "max-width:36em;font:16px/1.5 sans-serif;word-break:break-word"

log = logging.getLogger(__name__)


Value = str | int | Agent
"""What a text is filled with: an integer is a time in epoch milliseconds."""


class Reader(NamedTuple):
    """Whom a letter is for: an address, the language tag of whoever reads there, and whose it is, 0
    where nobody has it yet."""

    to: str
    language: str = LANGUAGES[0]
    user_id: int = 0


def reader(user: User, to: str | None = None) -> Reader:
    """A user, `to` another address than theirs where one is given."""
    return Reader(to or user.email, user.language, user.id)


def whoever(by: By) -> By:
    """The same, for what takes a link in a mail, or asks for one: whom the browser is signed in as
    is no matter."""
    return by.named(user_id=None)


def letter(
    env: Environment, kind: Kind, to: Reader, *, by: By | None = None, **values: Value
) -> Letter:
    """A letter that tells of what happens now, and of `by` where it came from. A paragraph that is
    an address of a page becomes a link."""
    language = _spoken(to.language)
    texts = _texts(language)
    words, now = texts["words"], env.clock()
    told: dict[str, Value] = {"at": now, "environment": words[env.name], **values}
    spelled = {**words, **{name: _spelled(words, value) for name, value in told.items()}}
    if by is not None:
        spelled["where"] = _where(words, by, to.user_id)
    subject = texts[kind]["subject"].format_map(spelled)
    body = [_one_line(part).format_map(spelled) for part in texts[kind]["body"].split("\n\n")]
    paragraphs = (words["hello"], *body, "Portico")
    html = (
        f'<!doctype html><html lang="{language}"><head><title>{escape(subject)}</title></head>',
        f'<body><div style="{_STYLE}">',
        *(f"<p>{_linked(escape(one))}</p>" for one in paragraphs),
        "</div></body></html>\n",
    )
    return Letter(
        id=env.random(16).hex(),
        at=now,
        user_id=to.user_id,
        to=to.to,
        subject=subject,
        text="\n\n".join(paragraphs) + "\n",
        html="\n".join(html),
    )


async def tell(
    env: Environment,
    change: Change,
    user: User,
    kind: Kind,
    *,
    by: By | None = None,
    to: str | None = None,
    **values: Value,
) -> None:
    """Tells a user by mail what happens by a change, unless they want no mails of this kind; `to`
    another address than theirs where one is given. Where too many mails wait, the log has it
    instead: what happens does so all the same.

    In the sandbox only mirrors of accounts are people: the address of anybody else there is made
    up, and may be a stranger's.
    """
    if env.mirror is None and user.account_id is None:
        return
    if kind in SWITCHES and not user.wants(SWITCHES[kind]):
        return
    written = letter(env, kind, reader(user, to), by=by, **values)
    try:
        await post(env, change, Waiting(kind, written))
    except TooMany as error:
        log.warning("user %d was not told %r: %s", user.id, kind, error.message)


def _spoken(tag: str) -> str:
    """The language of ours for a language tag (BCP 47)."""
    primary = tag.partition("-")[0].lower()
    return primary if primary in LANGUAGES else LANGUAGES[0]


@cache
def _texts(language: str) -> dict[str, dict[str, str]]:
    file = files("portico.services") / "mails" / f"{language}.toml"
    texts = tomllib.loads(file.read_text("utf-8"))
    texts["words"] = {name: _one_line(words) for name, words in texts["words"].items()}
    return texts


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _spelled(words: dict[str, str], value: Value) -> str:
    if isinstance(value, int):
        return datetime.fromtimestamp(value // SECOND, UTC).strftime(words["moment"])
    if isinstance(value, str):
        return _one_line(unturned(value))  # a line end in a name would begin a paragraph
    if value.program is not None:
        return value.program or words["a_program"]
    browser, system = value.browser or words["a_browser"], value.system or words["a_system"]
    return words["browser_on_system"].format(browser=browser, system=system)


def _where(words: dict[str, str], by: By, user_id: int) -> str:
    """Where something was done from; where somebody else did it, no more than that. A proxy may
    pass on any text for an address; a mail does not."""
    if by.actor.credential == "command" or by.actor.user_id not in (None, user_id):
        return words["by_administrator"]
    try:
        return words["from_address"].format(address=ip_address(by.address))
    except ValueError:
        return words["from_unknown"]


def _linked(paragraph: str) -> str:
    return (
        f'<a href="{paragraph}">{paragraph}</a>' if paragraph.startswith("https://") else paragraph
    )
