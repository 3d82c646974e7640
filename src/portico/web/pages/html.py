"""The templates with their filters and globals."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from portico.web.pages import filters
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
    environment.filters |= {
        name: getattr(filters, name)
        for name in (
            "ago",
            "clock",
            "credential_words",
            "dated",
            "day",
            "duration",
            "email",
            "facts",
            "in_order",
            "named",
            "number",
            "scope_words",
            "second",
            "status_colour",
            "when",
        )
    }
    environment.filters |= {
        "coloured": coloured,
        "inline": inline,
        "prose": prose,
    }
    return environment


def template(name: str) -> Template:
    """The template with this file name. It escapes values; a missing one is an error."""
    return _environment().get_template(name)
