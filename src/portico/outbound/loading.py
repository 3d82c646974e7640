"""Loads the HTTP client with the first request: most installations send none."""

import asyncio
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import ClientSession

    from portico.outbound.client import Client


async def load(
    tls: ssl.SSLContext | None,
) -> "tuple[type[Client], Callable[[ssl.SSLContext], ClientSession], ssl.SSLContext]":
    """The client of deliveries, what makes a session of plain requests, and whom to believe:
    `tls`, or the system's authorities."""
    # In a thread, since this takes longer than a request may wait for the event loop.
    return await asyncio.to_thread(_load, tls)


def _load(
    tls: ssl.SSLContext | None,
) -> "tuple[type[Client], Callable[[ssl.SSLContext], ClientSession], ssl.SSLContext]":
    from portico.outbound.client import Client, plain_session

    return Client, plain_session, tls or ssl.create_default_context()
