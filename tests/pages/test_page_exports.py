"""The files that lists of products and of the audit log give, and what ends them."""

import csv
import io
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import msgspec
import pytest

from driving import NOON, Api, InProcess
from pages.visiting import Visitor, signed_in, visitor
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.features.catalogue.storage import Products
from portico.features.events.audit import EXPORT_BATCH, Audit
from portico.features.signin.rules import SignedOut
from portico.resource.store import EXPORT_BATCH as PRODUCTS_BATCH

PRODUCTS = "products/export?format=ndjson"
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


async def fill(api: Api) -> None:
    """`COUNT` products."""
    made = await api.product(description="d" * 300)
    async with api.live.db.transaction() as tx:
        await api.live[Products].insert_many(tx, [made] * (COUNT - 1))


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
    await admin.saved(f"/users/{user.id}/edit", **fields, role="viewer")


@pytest.mark.one_engine
@pytest.mark.parametrize("end", [suspended, deleted, signed_out, made_a_viewer])
async def test_export_is_broken_off_when_its_reader_loses_access(
    api: Api,
    end: Callable[[Visitor, User, Visitor], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fill(api)
    _, admin = await signed_in(api, "admin")
    user, theirs = await signed_in(api, "admin")
    rows, stands = await sent(api, theirs, PRODUCTS, lambda: end(admin, user, theirs))
    assert 0 < len(rows) <= EXPORT_BATCH, "what was read before"
    assert not stands, "nobody takes it for the whole"
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []


async def exported(visitor: Visitor, path: str) -> tuple[list[dict[str, str]], list[Any]]:
    """The rows of both files of a list."""
    joined = path + ("&" if "?" in path else "?")
    table = await visitor.get(f"{joined}format=csv")
    lines = await visitor.get(f"{joined}format=ndjson")
    assert table.status_code == lines.status_code == 200, table.text
    rows = list(csv.DictReader(io.StringIO(table.text, newline="")))
    return rows, [json.loads(line) for line in lines.text.splitlines()]


@pytest.mark.one_engine
@pytest.mark.parametrize(("name", "role"), [("products", "viewer"), ("audit", "admin")])
async def test_export_is_an_attachment_named_by_list_environment_and_day(
    api: Api, name: str, role: str
) -> None:
    _, somebody = await signed_in(api, role)
    for base, form, kind in (("", "csv", "text/csv"), ("/sandbox", "ndjson", "application/x-ndj")):
        answer = await somebody.get(f"{base}/{name}/export?format={form}")
        called = f"{name}-{base[1:] or 'live'}-2026-03-15.{form}"
        assert answer.headers["content-disposition"] == f'attachment; filename="{called}"'
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["cache-control"] == "no-store"
    assert (await somebody.get(f"/{name}/export?format=xml")).status_code == 400


async def test_product_export_has_every_row_of_many_batches_in_order(api: Api) -> None:
    made = [await api.product(name=f"Lamp {n}", status="active") for n in range(2)]
    async with api.live.db.transaction() as tx:
        await api.live[Products].insert_many(tx, made * PRODUCTS_BATCH)
    _, viewer = await signed_in(api)
    rows, values = await exported(viewer, "/products/export?search=lamp")
    ids = [value["id"] for value in values]
    assert len(ids) == 2 * PRODUCTS_BATCH + 2
    assert ids == sorted(set(ids)) == [int(row["id"]) for row in rows]


async def test_audit_export_has_every_row_of_many_batches_and_no_formula(api: Api) -> None:
    _, admin = await signed_in(api, "admin")
    actor = msgspec.structs.replace(OPERATOR.actor, email="=1+1@example.com")
    async with api.live.db.transaction() as tx:
        for number in range(EXPORT_BATCH + 1):
            await api.live[Audit].record(tx, actor, NOON - number // 3, SignedOut(number))
    rows, values = await exported(admin, "/audit/export?action=sign_out")
    assert len({row["id"] for row in rows}) == len(rows) == len(values) == EXPORT_BATCH + 1
    assert {row["email"] for row in rows} == {"'=1+1@example.com"}


@pytest.mark.one_engine
async def test_export_is_compressed_on_request_and_a_page_with_a_csrf_token_never(
    api: Api,
) -> None:
    """The length of a page would tell of the token, a guess at a time (BREACH)."""
    _, viewer = await signed_in(api)
    await api.product(description="Warm light. " * 100)

    async def fetch(path: str, accepted: str) -> httpx.Response:
        return await viewer.get(path, **{"accept-encoding": accepted})

    plain = await fetch("/products/export?format=csv", "identity")
    coded = await fetch("/products/export?format=csv", "gzip")
    assert coded.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == coded.headers["vary"] == "Accept-Encoding"
    assert plain.text == coded.text
    page = await fetch("/products", "gzip")
    assert 'name="csrf"' in page.text
    assert "content-encoding" not in page.headers


@pytest.mark.one_engine
async def test_export_ends_with_its_session_but_not_by_idleness_or_another_change(
    api: Api,
) -> None:
    await fill(api)
    user, admin = await signed_in(api, "admin")

    async def passes(seconds: int) -> None:
        await admin.saved("/profile", name="Somebody else", language="en", theme="dark")
        api.clock.advance(seconds=seconds)

    rows, stands = await sent(api, admin, PRODUCTS, lambda: passes(86_399))
    assert (len(rows), stands) == (COUNT, True)
    admin = await visitor(api, user)
    rows, stands = await sent(api, admin, PRODUCTS, lambda: passes(86_400))
    assert 0 < len(rows) <= EXPORT_BATCH
    assert not stands
