"""Loads the HTTP client with the first request: most installations send none."""

import asyncio
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portico.outbound.client import Client, PlainClient


async def load(
    tls: ssl.SSLContext | None,
) -> "tuple[type[Client], type[PlainClient], ssl.SSLContext]":
    """The client of deliveries, that of plain requests, and the trusted authorities: `tls`, or the
    system's."""
    # In a thread: it would block the event loop for too long.
    return await asyncio.to_thread(_load, tls)


def _load(
    tls: ssl.SSLContext | None,
) -> "tuple[type[Client], type[PlainClient], ssl.SSLContext]":
    from portico.outbound.client import Client, PlainClient

    return Client, PlainClient, tls or ssl.create_default_context()
