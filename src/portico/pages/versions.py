"""Forms that edit a resource carry the version that they started from, as `If-Match` does, so that
another user's changes are shown and not overwritten.

A version is the entity tag of the values that the form shows, by the names of its fields.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from portico.http.conditions import entity_tag, require_match
from portico.pages.forms import Form

VERSION = "version"
"""The form field with the version."""

_LINE_END = re.compile("\r\n?")

Told = Mapping[str, str]


class Difference(NamedTuple):
    """A field that differs between two versions."""

    words: str
    theirs: str
    mine: str


def differences(theirs: Told, mine: Told) -> list[Difference]:
    """The fields whose stored value differs from the submitted one."""
    return [
        Difference(words, theirs[words], text)
        for words, text in mine.items()
        if text != theirs[words]
    ]


def beside(form: Form, stored: Told, mine: Told | None) -> dict[str, Any]:
    """The template variables about versions: the one that the form starts from and, if the form was
    refused (412) because others changed the resource, their values beside `mine`."""
    version = entity_tag(msgspec.json.encode(stored))
    return {
        "status": 412 if mine else 200,
        "version": version if mine else form.shown(VERSION, version),
        "meanwhile": bool(mine),
        "differences": differences(stored, mine or {}),
    }


def require_version(form: Form, told: Told) -> None:
    """Raises `PreconditionFailed` unless the form started from what is stored."""
    require_match(form.text(VERSION), msgspec.json.encode(told))


def outcome(form: Form, stored: Told, changed: str) -> str:
    """The notice for a form that was saved: `changed`, or that nothing was changed if `stored` is
    what it started from."""
    unchanged = form.text(VERSION) == entity_tag(msgspec.json.encode(stored))
    return "nothing-changed" if unchanged else changed


def with_line_ends(sent: dict[str, Any], stored: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """The values of a form with the line ends of the stored texts: browsers send all line ends
    alike, and a form that was not edited must change nothing. A text is replaced by a stored text
    of its field that differs only in line ends; each stored text is used once."""
    return {name: _spelled(value, _spellings(stored.get(name, ()))) for name, value in sent.items()}


def _spellings(texts: Iterable[str]) -> Mapping[str, Iterator[str]]:
    """The texts in their order, by what a browser sends for them."""
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
