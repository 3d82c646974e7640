"""The application on both engines, as for the contract, and time that passes when a test says."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from contract.conftest import api
from contract.conftest import environ as each_engine
from driving import Api, Caller
from mail.conftest import Post
from operating import eventually
from receiving import Receiver, receiving

__all__ = ["api", "each_engine", "environ", "waiting"]


LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 12.5}
FAULT = b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops"
WANTS_NO_MORE = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"


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


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that takes everything."""
    async with receiving(Receiver()) as receiver:
        yield receiver


async def hook(admin: Caller, receiver: Receiver, *types: str) -> dict[str, Any]:
    """A webhook that leads to a receiver."""
    body = {"url": f"http://127.0.0.1:{receiver.port}/in", "types": types or ["*"]}
    answer = await admin.post("/webhooks", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()["data"]
    return made


async def deliveries(admin: Caller, made: dict[str, Any], until: str = "") -> list[dict[str, Any]]:
    """A webhook's deliveries, once the newest has this state."""

    async def shown() -> tuple[list[dict[str, Any]]] | None:
        answer = await admin.get(f"/webhooks/{made['id']}/deliveries")
        listed: list[dict[str, Any]] = answer.json()["data"]
        newest = (listed[0]["status"], listed[0]["last_error"]) if listed else ()
        return (listed,) if not until or until in newest else None

    found: tuple[list[dict[str, Any]]] = await eventually(shown, until)
    return found[0]


async def deliveries_after(admin: Caller, made: dict[str, Any], attempts: int) -> Any:
    async def tried() -> Any:
        listed = await deliveries(admin, made)
        return listed if listed and listed[0]["attempts"] == attempts else None

    return await eventually(tried, "the last attempt")


async def became(admin: Caller, made: dict[str, Any], status: str) -> dict[str, Any]:
    async def found() -> Any:
        now = (await admin.get(f"/webhooks/{made['id']}")).json()["data"]
        return now if now["status"] == status else None

    now: dict[str, Any] = await eventually(found, status)
    return now


async def all_tried(admin: Caller, made: dict[str, Any], count: int) -> None:
    async def tried() -> bool:
        listed = await deliveries(admin, made)
        return len(listed) == count and all(one["attempts"] for one in listed)

    await eventually(tried, "the last attempt")


@pytest.fixture
def post(api: Api) -> Post:
    """The mail of the service."""
    return Post(api)
