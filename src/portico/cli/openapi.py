"""`portico openapi`: the document that the server serves at `openapi.json`."""

from argparse import Namespace

import msgspec

from portico.app import V1
from portico.cli.arguments import Commands, take_sandbox
from portico.cli.output import say
from portico.http.openapi import document
from portico.settings import Settings


def add_to(commands: Commands) -> None:
    """Declares `portico openapi`."""
    take_sandbox(commands.verb("openapi", _print, "print the API's OpenAPI document"))


def _print(settings: Settings, chosen: Namespace) -> None:
    """Indented for people; one line with --json."""
    address = settings.sandbox_url if chosen.sandbox else settings.base_url
    text = msgspec.json.encode(document(address, V1, settings.plans))
    say((text if chosen.json else msgspec.json.format(text)).decode())
