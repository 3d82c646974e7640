"""Forms that change something carry the version that they began with, as `If-Match`: what others
changed meanwhile is shown, and not overwritten.

A version is the entity tag of what a form shows, as people compare it, by the names of its fields.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from portico.http.conditions import entity_tag, require_match
from portico.pages.forms import Form

VERSION = "version"
"""The field that holds it."""

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
