"""A file that is being sent, and what becomes of whoever it is for."""

import json
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from driving import NOON, Api, InProcess
from pages.visiting import Visitor, signed_in
from portico.domain.audit import OPERATOR
from portico.domain.events.signing_in import SignInRefused
from portico.domain.users import User
from portico.storage.audit import EXPORT_BATCH

PRODUCTS = "products/export?format=ndjson"
ENTRIES = "audit/export?format=ndjson&action=sign_in.refused"
COUNT = 3 * EXPORT_BATCH
"""What a file is to hold: several batches, of which the first is more than is handed on unread."""


@pytest.fixture
def environ(each_database: dict[str, str]) -> dict[str, str]:
    return each_database


class SlowReader:
    """The connection of a browser that takes nothing of a file until it reads on."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self._theirs = theirs
        self.address = "{}:{}".format(*theirs.getsockname())
        for side in (ours, theirs):
            side.settimeout(0)
        with suppress(BlockingIOError):
            while True:
                ours.send(bytes(1 << 16))

    def read_on(self) -> bool:
        """Takes all that waits; tells whether the connection still stands."""
        try:
            while self._theirs.recv(1 << 16):
                pass
        except BlockingIOError:
            return True
        return False


@contextmanager
def slow_reader() -> Iterator[SlowReader]:
    """One that has as much to read as the kernel takes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours = listener.accept()[0]
    with ours, theirs:
        yield SlowReader(ours, theirs)


async def fill(api: Api, path: str) -> None:
    """`COUNT` of what the file has."""
    env = api.sandbox if "sandbox" in path else api.live
    made = await api.product(env, description="d" * 300)
    async with env.db.transaction() as tx:
        if "products" in path:
            await env.products.insert_many(tx, [made] * (COUNT - 1))
            return
        for _ in range(COUNT):
            await env.audit.record(tx, OPERATOR.actor, NOON, SignInRefused(None))


Happens = Callable[[], Awaitable[object]]


async def sent(api: Api, visitor: Visitor, path: str, happens: Happens) -> tuple[list[Any], bool]:
    """The rows that come of a file while whose reader was slow something happened, and whether the
    connection still stands."""
    cookies = "; ".join(f"{one.name}={one.value}" for one in visitor.client.cookies.jar)
    headers = [("host", "localhost:8443"), ("cookie", cookies)]
    with slow_reader() as reader:
        here = InProcess(api, reader.address)
        answer = await here.exchange("GET", f"/dashboard/{path}", headers)
        assert answer.status_code == 200
        pieces = aiter(answer.stream)  # type: ignore[arg-type]  # an asynchronous one
        text = await anext(pieces)
        await happens()
        assert reader.read_on(), "so long it waits for its reader"
        text += b"".join([piece async for piece in pieces])
        return [json.loads(line) for line in text.splitlines()], reader.read_on()


async def suspended(admin: Visitor, user: User, _: Visitor) -> None:
    await admin.post("/users/suspend", id=user.id)


async def deleted(admin: Visitor, user: User, _: Visitor) -> None:
    await admin.post("/users/delete", id=user.id)


async def signed_out(_admin: Visitor, _user: User, theirs: Visitor) -> None:
    await theirs.post("/sign-out")


async def made_a_viewer(admin: Visitor, user: User, _: Visitor) -> None:
    fields = {"name": user.name, "email": user.email, "plan": user.plan}
    await admin.saved(f"/users/{user.id}", **fields, role="viewer")


@pytest.mark.parametrize(
    ("end", "path"),
    [
        *((end, PRODUCTS) for end in (suspended, deleted, signed_out, made_a_viewer)),
        *((suspended, path) for path in (ENTRIES, f"sandbox/{PRODUCTS}", f"sandbox/{ENTRIES}")),
    ],
)
async def test_a_file_is_broken_off_for_who_may_not_have_it_any_more(
    api: Api,
    path: str,
    end: Callable[[Visitor, User, Visitor], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fill(api, path)
    _, admin = await signed_in(api, "admin")
    user, theirs = await signed_in(api, "admin")

    rows, stands = await sent(api, theirs, path, lambda: end(admin, user, theirs))

    assert 0 < len(rows) <= EXPORT_BATCH, "what was read before"
    assert not stands, "nobody takes it for the whole"
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []


async def test_a_file_ends_with_its_session_but_not_because_that_is_idle(api: Api) -> None:
    await fill(api, PRODUCTS)
    _, admin = await signed_in(api, "admin")

    async def passes(seconds: int) -> None:
        api.clock.advance(seconds=seconds)

    rows, stands = await sent(api, admin, PRODUCTS, lambda: passes(86_399))
    assert (len(rows), stands) == (COUNT, True)
    _, admin = await signed_in(api, "admin")
    rows, stands = await sent(api, admin, PRODUCTS, lambda: passes(86_400))
    assert 0 < len(rows) <= EXPORT_BATCH
    assert not stands


@pytest.mark.parametrize("path", [PRODUCTS, ENTRIES, f"sandbox/{PRODUCTS}"])
async def test_a_file_is_whole_where_its_readers_account_changes_otherwise(
    api: Api, path: str
) -> None:
    await fill(api, path)
    _, admin = await signed_in(api, "admin")
    user, theirs = await signed_in(api, "admin")
    fields = {"name": "Somebody else", "email": user.email, "role": "admin", "plan": "pro"}

    rows, stands = await sent(api, theirs, path, lambda: admin.saved(f"/users/{user.id}", **fields))

    assert (len(rows), stands) == (COUNT, True)
