"""`portico openapi`: the documents that the server serves at `openapi.json`."""

from argparse import Namespace

import msgspec

from portico.cli.output import say_json
from portico.http.openapi import Part, auth_document, document
from portico.mounts import AUTH, V1
from portico.settings import Settings


def run(settings: Settings, chosen: Namespace) -> None:
    """Prints the document: indented, or as one line with --json."""
    base, auth = settings.base_url, settings.auth_url
    if chosen.sandbox:
        base, auth = settings.sandbox_url, settings.sandbox_auth_url
    if chosen.auth:
        described = auth_document(
            Part(auth, AUTH), base, settings.plans, site_name=settings.site_name
        )
    else:
        described = document(
            Part(base, V1), Part(auth, ()), settings.plans, site_name=settings.site_name
        )
    text = msgspec.json.encode(described)
    say_json(text if chosen.json else msgspec.json.format(text))
