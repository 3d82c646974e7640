"""Writes mails: a few short paragraphs each, as text and as HTML, in the recipient's language. The
texts are in `mails`, one file per language."""

import logging
import tomllib
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from ipaddress import ip_address
from typing import Literal, NamedTuple

import msgspec

from portico.change import Change
from portico.core.audit import Actor, Author
from portico.core.errors import Conflict, Unavailable
from portico.core.sessions import Agent
from portico.core.text import without_direction_marks
from portico.core.times import SECOND
from portico.core.users import User
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.mail.storage import Mail, Mails
from portico.features.people.guard import MAILS, take_hourly
from portico.limits.protocol import Caller
from portico.outbound.mail import Letter

QUEUE = 10_000
"""How many mails of an environment may wait at once."""

SEALED_AS = "mail"


class TooMany(Unavailable):
    """Too many mails wait."""

    def __init__(self) -> None:
        super().__init__("Too many mails are waiting to be sent.", retry_after=60)


class WrittenBefore(Conflict):
    """Another process has already written the letter that was asked for."""

    def __init__(self) -> None:
        super().__init__("This letter was written before.")


class Ask(msgspec.Struct, frozen=True):
    """A request for a mail to an address. Whether and what is written depends on its account, and
    is decided later. `language` is the language tag of the request's sender."""

    purpose: Literal["reset", "sign-up"]
    email: str
    by: Actor
    language: str = ""


class WaitingMail(msgspec.Struct, frozen=True):
    """A waiting row: a letter, or a request for one. `purpose` names it in the log. `until` is when
    the link in the letter expires (epoch milliseconds)."""

    purpose: str
    letter: Letter | None = None
    ask: Ask | None = None
    until: int | None = None


async def admit(env: Environment, whose: Caller, place: Mail | None) -> None:
    """Counts a mail that was asked for against the hourly limit. Of the `Ask` in this `place` only
    the first attempt counts, so that a retry is not refused. Raises `RateLimited` and
    `Unavailable`."""
    if place is None or place.attempts <= 1:
        await take_hourly(env, whose, MAILS, "mails")


async def post(
    env: Environment, change: Change, waiting: WaitingMail, place: Mail | None = None
) -> None:
    """Stores a mail, to be sent once the change is committed; it replaces the `Ask` in this
    `place`, if given. Raises `TooMany` and `WrittenBefore`."""
    sealed = env[Vault].seal(msgspec.json.encode(waiting), SEALED_AS)
    if place is not None:
        if not await env[Mails].remove(change.tx, place.id):
            raise WrittenBefore
    elif await env[Mails].count(change.tx, QUEUE) >= QUEUE:
        raise TooMany
    await env[Mails].add(change.tx, sealed, change.now)
    change.posted = True


async def ask(env: Environment, asked: Ask) -> None:
    """Stores a request for a mail. Raises `TooMany`."""

    async def work(change: Change) -> None:
        await post(env, change, WaitingMail(asked.purpose, ask=asked))
        change.noted_elsewhere()  # when the mail is written

    await env.change(Author(asked.by), work)


def decrypted(env: Environment, sealed: bytes) -> WaitingMail | None:
    """A waiting row's content; None if another secret sealed it or a newer release wrote it."""
    content = env[Vault].open(sealed, SEALED_AS)
    try:
        return None if content is None else msgspec.json.decode(content, type=WaitingMail)
    except msgspec.ValidationError:
        return None


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
    "wrong-codes",
    "provider-linked",
    "provider-unlinked",
    "suspended",
    "new-device",
    "new-key",
    "rotated-key",
    "key-ends",
    "new-role",
    "mails-off",
    "webhook-gone",
    "webhook-failing",
]
"""The kinds of mails: the names of their texts in every language file."""

SWITCHES: dict[Kind, str] = {
    "new-device": "sign-ins",
    "new-key": "keys",
    "rotated-key": "keys",
    "key-ends": "expiring-keys",
    "new-role": "roles",
}
"""The switch (of `core.users.MAILS`) that turns a kind off; the others cannot be turned off."""

LANGUAGES = ("en", "de")
"""The languages that have texts; the first one is the default."""

_SCHEME = '<meta name="color-scheme" content="light dark">'
"""Without it, mail programs in dark mode may leave the text black."""
# Links are long and have no spaces. Some mail programs ignore the style of the body element.
_STYLE = "max-width:36em;font:16px/1.5 sans-serif;word-break:break-word"

log = logging.getLogger(__name__)


Value = str | int | Agent
"""A value in a text: an integer is a time in epoch milliseconds."""


class Recipient(NamedTuple):
    """The recipient of a letter: an address, its owner's language tag, and the id of the user, 0 if
    the address has no account yet."""

    to: str
    language: str = LANGUAGES[0]
    user_id: int = 0


def reader(user: User, to: str | None = None) -> Recipient:
    """A user as a recipient, at the address `to` instead of their own if given."""
    return Recipient(to or user.email, user.language, user.id)


def without_user(by: Author) -> Author:
    """`by` without a user, for requests that ask for a mail with a link: it does not matter who is
    signed in in that browser."""
    return by.named(user_id=None)


def letter(
    env: Environment, kind: Kind, to: Recipient, *, by: Author | None = None, **values: Value
) -> Letter:
    """A letter about something that happens now; with `by`, it says where that came from. A
    paragraph that is the address of a page becomes a link."""
    language = _spoken(to.language)
    texts = _texts(language)
    words, now = texts["words"], env.clock()
    facts: dict[str, Value] = {
        "at": now,
        "environment": words[env.name],
        "site_name": env.settings.site_name,
        **values,
    }
    spelled = {**words, **{name: _spelled(words, value) for name, value in facts.items()}}
    if by is not None:
        spelled["where"] = _where(words, by, to.user_id)
    subject = texts[kind]["subject"].format_map(spelled)
    body = [_one_line(part).format_map(spelled) for part in texts[kind]["body"].split("\n\n")]
    paragraphs = (words["hello"], *body, env.settings.site_name)
    html = (
        f'<!doctype html><html lang="{language}"><head>{_SCHEME}',
        f"<title>{escape(subject)}</title></head>",
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


async def notify(
    env: Environment,
    change: Change,
    user: User,
    kind: Kind,
    *,
    by: Author | None = None,
    to: str | None = None,
    **values: Value,
) -> None:
    """Mails a user about a change, unless they turned mails of this kind off; `to` is another
    address than theirs, if given. If too many mails wait, a warning is logged instead, and the
    change goes on.

    In the sandbox only mirror users get mail: the e-mails of other users there are made up, and may
    belong to strangers.
    """
    if env.mirror is None and user.account_id is None:
        return
    if kind in SWITCHES and SWITCHES[kind] not in user.mails:
        return
    written = letter(env, kind, reader(user, to), by=by, **values)
    try:
        await post(env, change, WaitingMail(kind, written))
    except TooMany as error:
        log.warning("user %d was not told %r: %s", user.id, kind, error.message)


def _spoken(tag: str) -> str:
    """The language of the texts for a language tag (BCP 47)."""
    primary = tag.partition("-")[0].lower()
    return primary if primary in LANGUAGES else LANGUAGES[0]


@cache
def _texts(language: str) -> dict[str, dict[str, str]]:
    file = files("portico.features.mail") / "mails" / f"{language}.toml"
    texts = tomllib.loads(file.read_text("utf-8"))
    texts["words"] = {name: _one_line(words) for name, words in texts["words"].items()}
    return texts


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _spelled(words: dict[str, str], value: Value) -> str:
    if isinstance(value, int):
        return datetime.fromtimestamp(value // SECOND, UTC).strftime(words["moment"])
    if isinstance(value, str):
        # A newline in a name would begin a paragraph.
        return _one_line(without_direction_marks(value))
    if value.program is not None:
        return value.program or words["a_program"]
    browser, system = value.browser or words["a_browser"], value.system or words["a_system"]
    return words["browser_on_system"].format(browser=browser, system=system)


def _where(words: dict[str, str], by: Author, user_id: int) -> str:
    """Where the user did something from, or that somebody else did it. An address that is not an IP
    address is left out, because a proxy may pass on any text."""
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
