"""Forms that edit a resource carry the version that they started from, as `If-Match` does, so that
another user's changes are shown and not overwritten.

A version is the entity tag of the values that the form shows, by the names of its fields.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from portico.web.conditions import entity_tag, require_match
from portico.web.pages.forms import Form

VERSION = "version"
"""The form field with the version."""

Values = Mapping[str, str]


class Difference(NamedTuple):
    """A field that differs between two versions."""

    words: str
    theirs: str
    mine: str


def differences(theirs: Values, mine: Values) -> list[Difference]:
    """The fields whose stored value differs from the submitted one."""
    return [
        Difference(words, theirs[words], text)
        for words, text in mine.items()
        if text != theirs[words]
    ]


def beside(form: Form, stored: Values, mine: Values | None) -> dict[str, Any]:
    """The template variables about versions: the one that the form starts from and, if the form was
    refused (412) because others changed the resource, their values beside `mine`."""
    version = entity_tag(msgspec.json.encode(stored))
    return {
        "status": 412 if mine else 200,
        "version": version if mine else form.shown(VERSION, version),
        "meanwhile": bool(mine),
        "differences": differences(stored, mine or {}),
    }


def require_version(form: Form, stored: Values) -> None:
    """Raises `PreconditionFailed` unless the form started from what is stored."""
    require_match(form.text(VERSION), msgspec.json.encode(stored))


def outcome(form: Form, stored: Values, changed: str) -> str:
    """The notice for a form that was saved: `changed`, or that nothing was changed if `stored` is
    what it started from."""
    unchanged = form.text(VERSION) == entity_tag(msgspec.json.encode(stored))
    return "nothing-changed" if unchanged else changed
