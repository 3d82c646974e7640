"""Forms that change something carry the version that they began with, as `If-Match`: what others
changed meanwhile is shown, and not overwritten.

A version is the entity tag of what a form shows, as people compare it, by the names of its fields.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from portico.http.conditions import entity_tag, require_match
from portico.pages.forms import Form

VERSION = "version"
"""The field that holds it."""

_LINE_END = re.compile("\r\n?")

Told = Mapping[str, str]


class Difference(NamedTuple):
    """A field of which two versions are not alike."""

    words: str
    theirs: str
    mine: str


def differences(theirs: Told, mine: Told) -> list[Difference]:
    """The fields of which what is stored is not what was sent."""
    return [
        Difference(words, theirs[words], text)
        for words, text in mine.items()
        if text != theirs[words]
    ]


def beside(form: Form, stored: Told, mine: Told | None) -> dict[str, Any]:
    """What the page of a form has of versions: that which it begins with, and what others have
    changed beside what is `mine`, of a form that was refused for it (412)."""
    version = entity_tag(msgspec.json.encode(stored))
    return {
        "status": 412 if mine else 200,
        "version": version if mine else form.shown(VERSION, version),
        "meanwhile": bool(mine),
        "differences": differences(stored, mine or {}),
    }


def require_version(form: Form, told: Told) -> None:
    """Raises `PreconditionFailed` for a form that began with something else than what is stored."""
    require_match(form.text(VERSION), msgspec.json.encode(told))


def outcome(form: Form, stored: Told, changed: str) -> str:
    """Which notice tells what came of a form: `changed`, unless what is `stored` now is what it
    began with."""
    unchanged = form.text(VERSION) == entity_tag(msgspec.json.encode(stored))
    return "nothing-changed" if unchanged else changed


def with_line_ends(sent: dict[str, Any], stored: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """The values of a form, in which each text is one that is stored of its field where it differs
    from that in its line ends alone: browsers send all line ends alike, and a form that nobody
    changed changes nothing. Where stored texts are alike but for that, each stands for one."""
    return {name: _spelled(value, _spellings(stored.get(name, ()))) for name, value in sent.items()}


def _spellings(texts: Iterable[str]) -> Mapping[str, Iterator[str]]:
    """The texts by what a form sends for them, in their order."""
    found: dict[str, list[str]] = {}
    for text in texts:
        found.setdefault(_LINE_END.sub("\n", text), []).append(text)
    return {text: iter(spellings) for text, spellings in found.items()}


def _spelled(value: Any, stored: Mapping[str, Iterator[str]]) -> Any:
    if isinstance(value, dict):
        return {_spelled(name, stored): _spelled(item, stored) for name, item in value.items()}
    if isinstance(value, list):
        return [_spelled(item, stored) for item in value]
    return next(stored.get(value, iter(())), value) if isinstance(value, str) else value
