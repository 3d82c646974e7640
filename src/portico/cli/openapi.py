"""`portico openapi`: the documents that the server serves at `openapi.json`."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from portico.cli.arguments import Commands, add_sandbox
from portico.cli.lazy import lazy_imports
from portico.cli.output import say_json

if TYPE_CHECKING:
    from portico.settings import Settings

with lazy_imports():
    from portico import mounts
    from portico.openapi import document
    from portico.resource import installed


def add_to(commands: Commands) -> None:
    """Declares `portico openapi`."""
    parser = commands.verb("openapi", run, "print the API's OpenAPI document")
    add_sandbox(parser)
    parser.add_argument(
        "--auth", action="store_true", help="print the authorization server's document instead"
    )


def run(settings: Settings, chosen: Namespace) -> None:
    """Prints the document: indented, or as one line with --json."""
    import msgspec

    base, auth = settings.base_url, settings.auth_url
    if chosen.sandbox:
        base, auth = settings.sandbox_url, settings.sandbox_auth_url
    kinds = (
        installed.Installed(settings.kinds, settings.declared.roles).kinds if settings.kinds else ()
    )
    if chosen.auth:
        described = document.auth_document(
            document.DocumentPart(auth, mounts.AUTH),
            base,
            settings.plans,
            site_name=settings.site_name,
        )
    else:
        described = document.document(
            document.DocumentPart(base, mounts.v1(kinds)),
            document.DocumentPart(auth, ()),
            settings.plans,
            site_name=settings.site_name,
        )
    text = msgspec.json.encode(described)
    say_json(text if chosen.json else msgspec.json.format(text))
