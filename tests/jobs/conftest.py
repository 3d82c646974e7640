"""The application on both engines, as for the contract, and time that passes when a test says."""

import asyncio

import pytest

from contract.conftest import api
from contract.conftest import environ as each_engine

__all__ = ["api", "each_engine", "environ", "waiting"]


@pytest.fixture
def environ(each_engine: dict[str, str]) -> dict[str, str]:
    """The variables that choose the stores; webhooks may lead to this machine."""
    return each_engine | {"PORTICO_WEBHOOKS_ALLOW": "127.0.0.0/8"}


class Waiting:
    """Stands in for waiting: a test sees who waits, for how long, and lets them go on."""

    def __init__(self) -> None:
        self._waiters: asyncio.Queue[tuple[float, asyncio.Future[None]]] = asyncio.Queue()

    async def __call__(self, seconds: float) -> None:
        """Waits until the test has let it go on."""
        go_on: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.put_nowait((seconds, go_on))
        await go_on

    async def next(self) -> tuple[float, asyncio.Future[None]]:
        """Whoever waits next: for how many seconds, and what to resolve."""
        async with asyncio.timeout(20):
            return await self._waiters.get()

    async def pass_by(self) -> float:
        """Lets the next one go on, and tells how long it would have waited."""
        seconds, go_on = await self.next()
        go_on.set_result(None)
        return seconds


@pytest.fixture
def waiting() -> Waiting:
    """Time that passes when the test says so."""
    return Waiting()
