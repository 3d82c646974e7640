"""The templates, and their filters, which format values."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unicodedata import category

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from portico.core.oauth import OPENID_WORDS
from portico.core.requests import REFUSED
from portico.core.scopes import SCOPE_WORDS
from portico.core.text import counted, without_direction_marks
from portico.core.times import SECOND
from portico.web.pages.files import asset_path, content
from portico.web.reference.markdown import coloured, inline, prose

_PACKAGE = Path(__file__).parents[2]
FOLDERS = sorted([*_PACKAGE.glob("*/templates"), *_PACKAGE.glob("*/*/templates")])
"""Where templates stand: each with the pages that it is for. Their names are unique."""


def _mark() -> Markup:
    """The icon as inline SVG: an image would be one more request that delays the first paint."""
    drawn = content("icon.svg").decode()
    return Markup(drawn.replace("<svg ", '<svg aria-hidden="true" ', 1))  # noqa: S704 - our own


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDERS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals |= {"asset": asset_path, "mark": _mark()}
    environment.filters |= {one.__name__: one for one in _FILTERS}
    return environment


def template(name: str) -> Template:
    """The template with this file name. It escapes values; a missing one is an error."""
    return _environment().get_template(name)


_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and symbols that are invisible."""


def named(name: str, row_id: int) -> str:
    """A user-chosen name within other text. It cannot change the direction of the text around it,
    and a name of invisible characters is replaced by the id."""
    shown = without_direction_marks(name)
    if any(category(one)[0] in "LNPS" and one not in _BLANK for one in shown):
        return shown
    return f"Unnamed (ID {row_id})"


def email(address: str) -> Markup:
    """An e-mail address that may break only before its @."""
    name, sign, host = address.rpartition("@")
    return Markup("{}<wbr>{}{}").format(name, sign, host)


def number(value: int) -> str:
    """1,234."""
    return f"{value:,}"


def day(at: int) -> str:
    """The date of a time in epoch milliseconds: 5 Mar 2026."""
    moment = _moment(at)
    return f"{moment.day} {moment:%b %Y}"


def clock(at: int) -> str:
    """The time of day: 14:05 UTC."""
    return f"{_moment(at):%H:%M} UTC"


def when(at: int) -> Markup:
    """The date and the time of day."""
    return _time(at, f"{day(at)}, {clock(at)}")


def ago(at: int, now: int, *, within: bool = False) -> Markup:
    """How long ago a time was, in the largest unit that fits; the date after 30 days. `within` a
    sentence, no word begins with a capital letter."""
    seconds = max(now - at, 0) // SECOND
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = seconds // size
            if unit == "day" and count > 30:
                break
            return _time(at, f"{counted(count, unit)} ago")
    else:
        return _time(at, "just now" if within else "Just now")
    return _time(at, day(at))


def second(at: int) -> Markup:
    """The date and the time of day, to the second."""
    return _time(at, f"{day(at)}, {_moment(at):%H:%M:%S} UTC")


def status_words(status: int) -> str:
    """An HTTP status with its name: 404 Not Found."""
    return f"{status} {HTTPStatus(status).phrase}" if status else "Other"


def status_colour(status: int) -> str:
    """The colour of an HTTP status: answered, failed, or refused by a rate limit."""
    if status == REFUSED:
        return "warn"
    return "bad" if status >= 400 else "good"


def duration(seconds: int) -> str:
    """A length of time, rounded up to its largest unit."""
    for unit, size in (("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return counted(-(-seconds // size), unit)
    return counted(seconds, "second")


def scope_words(scope: str) -> str:
    """What a scope allows."""
    return OPENID_WORDS.get(scope) or SCOPE_WORDS[scope]


def in_order(scopes: Iterable[str]) -> list[str]:
    """Scopes in reading order, the harmless ones first."""
    return sorted(scopes, key=[*OPENID_WORDS, *SCOPE_WORDS].index)


_CREDENTIALS = {
    "api_key": "API key",
    "jwt": "Login token",
    "oauth": "Application",
    "session": "Session",
    "password": "Password",
    "passkey": "Passkey",
    "provider": "Sign-in provider",
    "command": "Command line",
    "system": "Portico itself",
    "none": "No credential",
}


def credential_words(credential: str) -> str:
    """The kind of a credential."""
    return _CREDENTIALS.get(credential, credential)


def facts(details: str) -> list[tuple[str, str]]:
    """The members of an audit entry's details (JSON), as readable names and values."""
    members = msgspec.json.decode(details)
    return [(name.replace("_", " "), _in_words(value)) for name, value in members.items()]


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_in_words(item) for item in value)
    if isinstance(value, dict) and value.keys() == {"from", "to"}:
        return f"{_in_words(value['from'])} → {_in_words(value['to'])}"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(at // SECOND, UTC)


def dated(at: int) -> Markup:
    """The date alone; its title has the time of day."""
    return _time(at, day(at))


def _time(at: int, words: str) -> Markup:
    moment = _moment(at)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        f"{moment:%Y-%m-%dT%H:%M:%SZ}", f"{moment:%Y-%m-%d %H:%M:%S} UTC", words
    )


_FILTERS: tuple[Callable[..., object], ...] = (
    ago,
    clock,
    credential_words,
    dated,
    day,
    duration,
    email,
    facts,
    in_order,
    named,
    number,
    scope_words,
    second,
    status_colour,
    when,
    coloured,
    inline,
    prose,
)
