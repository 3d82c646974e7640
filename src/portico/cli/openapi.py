"""`portico openapi`: the document that the server serves at `openapi.json`."""

from argparse import Namespace

import msgspec

from portico.app import AUTH, V1
from portico.cli.output import say
from portico.http.openapi import Part, document
from portico.settings import Settings


def run(settings: Settings, chosen: Namespace) -> None:
    """Indented for people; one line with --json."""
    addresses = (settings.base_url, settings.auth_url)
    if chosen.sandbox:
        addresses = (settings.sandbox_url, settings.sandbox_auth_url)
    version_part, auth_part = Part(addresses[0], V1), Part(addresses[1], AUTH)
    text = msgspec.json.encode(document(version_part, auth_part, settings.plans))
    say((text if chosen.json else msgspec.json.format(text)).decode())
