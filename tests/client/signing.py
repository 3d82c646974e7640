"""Clients that sign in: before the application with its clock, and before a script."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from client.scripted import PLACE, TOKENS, Scripted, answer, refusal
from driving import Api, InProcess
from portico_client import AsyncClient, Client, Login

PASSWORD = "Analytical1"
HOUR = 3600
UNKNOWN = refusal(401, "AUTHENTICATION_REQUIRED")


class Watched(InProcess):
    """The application, and what was asked of it."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.paths: list[str] = []
        self.renewing = asyncio.Event()
        """Set once tokens were asked for."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Others get their turn meanwhile, as on a network."""
        self.paths.append(request.url.path)
        if request.url.path == "/auth/token":
            self.renewing.set()
        await asyncio.sleep(0)
        return await super().handle_async_request(request)


@asynccontextmanager
async def signing_in(api: Api, credential: Any) -> AsyncIterator[tuple[AsyncClient, Watched]]:
    """A client of the application, whose clock is the application's."""
    watched = Watched(api)
    async with AsyncClient(
        auth=credential, transport=watched, clock=lambda: api.clock() / 1000
    ) as client:
        yield client, watched


def tokens(access: str) -> Any:
    """An answer with tokens."""
    fresh = {"access_token": access, "refresh_token": f"after-{access}"}
    return answer(200, TOKENS | fresh)


def session(cookie: str) -> Any:
    """An answer that opens a session."""
    return answer(201, {"data": {}}, set_cookie=f"{cookie}; Path=/; Secure; HttpOnly")


def scripted(*steps: Any, credential: Any = None) -> tuple[Client, Scripted]:
    """A client before a script."""
    script = Scripted(*steps)
    login = credential or Login("ada@example.com", PASSWORD)
    return Client(auth=login, base_url=PLACE, transport=script, sleep=lambda _: None), script
