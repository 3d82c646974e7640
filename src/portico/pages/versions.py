"""Forms that change something carry the version that they began with, as `If-Match`: what others
changed meanwhile is shown, and not overwritten.

A version is the entity tag of what a form shows, as people compare it, by the names of its fields.
"""

import re
from collections.abc import Iterable, Mapping
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


def with_line_ends(sent: dict[str, Any], stored: Iterable[str]) -> dict[str, Any]:
    """The values of a form, in which each text is a stored one where it differs from that in its
    line ends alone: browsers send all line ends alike, and a form that nobody changed changes
    nothing."""
    kept = {_LINE_END.sub("\n", text): text for text in stored if "\r" in text}
    spelled: dict[str, Any] = _spelled(sent, kept) if kept else sent
    return spelled


def _spelled(value: Any, kept: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {_spelled(name, kept): _spelled(item, kept) for name, item in value.items()}
    if isinstance(value, list):
        return [_spelled(item, kept) for item in value]
    return kept.get(value, value) if isinstance(value, str) else value
