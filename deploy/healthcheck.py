# ruff: noqa: INP001 - a script of the image, not a package
"""Exits with 0 if the server of this container answers GET /healthz with 200, else with 1."""

import http.client
import os
import ssl
import sys
from pathlib import Path

from portico.cli.lock import holder
from portico.settings import load

settings = load({}, os.environ, Path.cwd())
held = holder(settings.data)  # with what its flags say
host, port = (held.host, held.port) if held and held.port else (settings.host, settings.port)
host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - replaced, not bound
connection: http.client.HTTPConnection
if settings.tls:
    # The certificate names the public hosts, and this connection does not leave the container.
    context = ssl._create_unverified_context()  # noqa: S323, SLF001 - see above
    connection = http.client.HTTPSConnection(host, port, timeout=4, context=context)
else:
    connection = http.client.HTTPConnection(host, port, timeout=4)
try:
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
except OSError as error:
    sys.exit(f"no answer: {error}")
if status != 200:
    sys.exit(f"GET /healthz answers {status}")
