"""Events: written with every change, read in order by a cursor (decisions §12)."""

import asyncio
from typing import Any

import pytest

from busy_machine import within
from driving import Api, Caller, refused
from portico.core.audit import OPERATOR
from portico.core.events import EVENT_TYPES, Published
from portico.core.times import DAY
from portico.data.database import NOTHING, Params, Row, Transaction
from portico.features.catalogue.imports import (
    IDLE_SECONDS,
    LARGE,
    BatchLimits,
    Spool,
    store_at_once,
    store_in_batches,
    tell_of_idle,
)
from portico.features.catalogue.rules import FileRow
from portico.features.catalogue.storage import Imports, UntoldImport
from portico.features.events.audit import Audit, AuditFilter
from portico.features.events.feed import read_events
from portico.features.events.storage import Events
from portico.features.people.accounts import give_key, set_plan
from portico.features.people.sandbox import reset
from portico.features.people.storage import Users
from signing_in import PASSWORD

LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 12.5}
WHOLE: dict[str, Any] = LAMP | {
    "price": 1,
    "description": "",
    "currency": "USD",
    "stock_quantity": 0,
    "status": "draft",
    "images": [],
    "metadata": {},
}
ADA = {"name": "Ada", "email": "ada@example.com", "password": PASSWORD, "role": "editor"}
AT = "2026-03-15T12:00:00.000Z"


async def told(caller: Caller, **query: Any) -> list[dict[str, Any]]:
    """The events that a caller sees."""
    answer = await caller.get("/events", params=query)
    assert answer.status_code == 200, answer.text
    events: list[dict[str, Any]] = answer.json()["data"]
    return events


async def now(caller: Caller) -> int:
    """The id of the newest event, after which a test's own come."""
    answer = await caller.get("/events", params={"limit": 100})
    last: int = answer.json()["pagination"]["last_id"]
    return last


async def newest(caller: Caller) -> dict[str, Any]:
    return (await told(caller, limit=100))[-1]


async def test_product_created_has_the_product_as_read(api: Api) -> None:
    editor = await api.caller("editor")
    made = (await editor.post("/products", json=LAMP)).json()["data"]
    event = await newest(editor)
    assert event == {"id": event["id"], "type": "product.created", "timestamp": AT, "data": made}


async def test_product_updated_has_previous_values_with_derived_ones(api: Api) -> None:
    editor = await api.caller("editor")
    made = (await editor.post("/products", json=LAMP | {"metadata": {"a": "b"}})).json()["data"]
    api.clock.advance(seconds=1)
    body = {"price": 13, "stock_quantity": 4, "metadata": {"a": "c"}}
    changed = (await editor.patch(f"/products/{made['id']}", json=body)).json()["data"]
    event = await newest(editor)
    assert event["type"] == "product.updated"
    assert event["data"] == changed
    assert event["previous"] == {
        "price": 12.5,
        "in_stock": False,
        "stock_quantity": 0,
        "metadata": {"a": "b"},
    }


async def test_product_deleted_has_the_last_values(api: Api) -> None:
    editor = await api.caller("editor")
    made = (await editor.post("/products", json=LAMP)).json()["data"]
    await editor.delete(f"/products/{made['id']}")
    event = await newest(editor)
    assert (event["type"], event["data"]) == ("product.deleted", made)
    assert "previous" not in event


async def test_user_events_have_current_and_previous_values(api: Api) -> None:
    admin = await api.caller("admin")
    made = (await admin.post("/users", json=ADA)).json()["data"]
    path = f"/users/{made['id']}"
    await admin.patch(path, json={"name": "Ada King", "preferences": {"theme": "dark"}})
    last = (await admin.get(path)).json()["data"]
    await admin.delete(path)
    created, updated, deleted = await told(admin, type="user.*")
    assert created["data"]["preferences"]["theme"] == "system"
    assert created["data"].items() >= made.items()
    assert updated["previous"] == {
        "name": "Ada",
        "preferences": {"theme": "system", "language": "en", "notifications": True},
    }
    assert updated["data"] == deleted["data"] == last
    assert [e["type"] for e in (created, updated, deleted)] == [
        "user.created",
        "user.updated",
        "user.deleted",
    ]


async def test_a_new_password_is_user_updated_without_values(api: Api) -> None:
    admin = await api.caller("admin")
    user = await api.account("viewer", password=PASSWORD)
    await admin.patch(f"/users/{user.id}", json={"password": "Another1Password"})
    await admin.patch(f"/users/{user.id}", json={"password": "Third1Password", "name": "Ada"})
    first, second = await told(admin, type="user.updated")
    assert first["previous"] == {}
    assert second["previous"] == {"name": user.name}
    assert "assword" not in str(first) + str(second)


async def test_a_change_without_visible_effect_makes_no_event(api: Api) -> None:
    admin = await api.caller("admin")
    user = await api.account("viewer", password=PASSWORD)
    product = await api.product()
    keys = {"metadata": {"colour": "brass", "room": "hall"}}
    await admin.patch(f"/products/{product.id}", json=keys)
    before = await now(admin)
    await admin.patch(f"/users/{user.id}", json={"name": user.name})
    await admin.patch(f"/products/{product.id}", json={"name": "Lamp"})
    in_another_order = {"metadata": dict(reversed(keys["metadata"].items()))}
    await admin.patch(f"/products/{product.id}", json=in_another_order)
    await set_plan(api.live, user.email, "free", OPERATOR)
    await set_plan(api.live, user.email, "pro", OPERATOR)
    credentials = {"email": user.email, "password": PASSWORD}
    assert (await admin.post("/sessions", json=credentials)).status_code == 201
    assert (await admin.post("/products", json=LAMP | {"price": -1})).status_code == 422
    assert await told(admin, after=before) == []


async def test_api_key_events_have_no_secret(api: Api) -> None:
    admin = await api.caller("admin")
    user = await api.account("viewer")
    record, secret = await give_key(
        api.live, user, name="Shop", key_type="live", expires_at=None, by=OPERATOR
    )
    created = await newest(admin)
    assert created["type"] == "api_key.created"
    assert created["data"] == {
        "id": record.id,
        "name": "Shop",
        "type": "live",
        "hint": record.hint,
        "scopes": None,
        "networks": None,
        "created_at": AT,
        "expires_at": None,
        "last_used_at": None,
        "status": "active",
    }
    rotated = (await admin.post("/api-keys/rotate")).json()["data"]
    event = await newest(admin)
    assert event["type"] == "api_key.rotated"
    assert event["data"]["id"] == rotated["id"]
    assert event["data"]["previous_key"] == rotated["previous_key"]
    assert secret not in str(created)
    assert rotated["key"] not in str(event)


async def test_an_import_is_one_event_with_its_first_and_last_id(api: Api) -> None:
    editor = await api.caller("editor")
    rows = [FileRow(n, 0, WHOLE | {"name": f"Lamp {n}"}, []) for n in range(1, 2_501)]
    async for _ in store_in_batches(api.live, rows, OPERATOR):
        pass
    (event,) = await told(editor)
    assert event["type"] == "products.imported"
    first, last = event["data"]["first_id"], event["data"]["last_id"]
    assert event["data"] == {
        "inserted": 2500,
        "updated": 0,
        "first_id": first,
        "last_id": last,
        "inserted_ids": list(range(first, last + 1)),
        "updated_ids": [],
    }
    assert (await editor.get(f"/products/{first}")).json()["data"]["name"] == "Lamp 1"
    assert (await editor.get(f"/products/{last}")).json()["data"]["name"] == "Lamp 2500"


@pytest.mark.parametrize("at_once", [False, True])
async def test_products_imported_lists_new_and_changed_ids_ascending(
    api: Api, *, at_once: bool
) -> None:
    editor = await api.caller("editor")
    known = [(await api.product()).id for _ in range(5)]
    changes = [
        FileRow(n, 0, {"stock_quantity": 9}, [], row_id) for n, row_id in enumerate(known, 1)
    ]
    new = [FileRow(n, 0, WHOLE, []) for n in range(10, 15)]
    rows = [*reversed(changes), *new]
    if at_once:
        with Spool(None) as spool:
            for row in rows:
                spool.add(row)
            await store_at_once(api.live, spool, OPERATOR, lambda _: None)
    else:
        async for _ in store_in_batches(api.live, rows, OPERATOR, BatchLimits(2, 1024)):
            pass
    (event,) = await told(editor, type="products.imported")
    first = known[-1] + 1
    assert event["data"] == {
        "inserted": 5,
        "updated": 5,
        "first_id": known[0],
        "last_id": first + 4,
        "inserted_ids": [*range(first, first + 5)],
        "updated_ids": known,
    }
    assert await told(editor, type="product.*") == []


async def test_others_may_write_after_every_500_rows_of_an_import(api: Api) -> None:
    importing = store_in_batches(api.live, [FileRow(1, 0, WHOLE, [])] * 1_200, OPERATOR)
    assert [outcome.inserted async for outcome in importing] == [500, 500, 200]


async def test_an_idle_import_gets_an_event_for_its_stored_rows(api: Api) -> None:
    editor = await api.caller("editor")
    importing = store_in_batches(api.live, [FileRow(1, 0, WHOLE, [])] * (3 * LARGE.rows), OPERATOR)

    async def after(seconds: int) -> list[dict[str, Any]]:
        api.clock.advance(seconds=seconds)
        await tell_of_idle(api.live)
        return [event["data"] for event in await told(editor, type="products.imported")]

    await anext(importing)
    assert await after(IDLE_SECONDS - 1) == []
    await anext(importing)
    assert await after(IDLE_SECONDS - 1) == []
    (first,) = await after(1)
    assert await after(IDLE_SECONDS) == [first]
    assert first["inserted"] == first["last_id"] - first["first_id"] + 1 == 2 * LARGE.rows
    assert first["inserted_ids"] == list(range(first["first_id"], first["last_id"] + 1))
    assert [outcome.inserted async for outcome in importing] == [LARGE.rows]
    _, rest = await after(IDLE_SECONDS)
    assert rest["first_id"] == first["last_id"] + 1
    assert rest["inserted"] == LARGE.rows
    assert rest["inserted_ids"] == list(range(rest["first_id"], rest["last_id"] + 1))
    notes = await api.live[Audit].page(AuditFilter(action="products.imported"), limit=9)
    assert [note.credential for note in notes] == ["command"] * 2


async def test_an_import_that_goes_on_when_found_idle_has_one_event(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = await api.caller("editor")
    importing = store_in_batches(api.live, [FileRow(1, 0, WHOLE, [])] * (2 * LARGE.rows), OPERATOR)
    idle = api.live[Imports].idle

    async def and_goes_on(*args: int) -> list[UntoldImport]:
        found = await idle(*args)
        await anext(importing)
        return found

    await anext(importing)
    api.clock.advance(seconds=IDLE_SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(api.live[Imports], "idle", and_goes_on)
        await tell_of_idle(api.live)
    assert await told(editor, type="products.imported") == []
    assert [outcome async for outcome in importing] == []
    (event,) = await told(editor, type="products.imported")
    assert event["data"]["inserted"] == 2 * LARGE.rows


async def test_a_reset_of_the_sandbox_is_one_event_there_and_leaves_the_others(api: Api) -> None:
    live = await api.caller("admin")
    user = live.user
    record, key = await give_key(
        api.live, user, name="Test", key_type="test", expires_at=None, by=OPERATOR
    )
    filled = await reset(api.sandbox, OPERATOR)
    mirror = await api.sandbox[Users].by_account(user.id)
    assert mirror is not None
    sandbox = Caller(api, mirror, record, key, "sandbox")
    types = [event["type"] for event in await told(sandbox)]
    assert types == ["user.created", "api_key.created", "sandbox.reset"]
    event = await newest(sandbox)
    assert event["data"] == {"users": filled.users, "products": filled.products}
    assert {event["type"] for event in await told(live)} == {"api_key.created"}  # the admin's own
    await sandbox.aclose()


async def test_a_reader_walks_through_all_events_by_the_last_id(api: Api) -> None:
    editor = await api.caller("editor")
    for number in range(7):
        await editor.post("/products", json=LAMP | {"name": f"Lamp {number}"})
    after, names, pages = 0, [], []
    while True:
        answer = (await editor.get("/events", params={"after": after, "limit": 3})).json()
        names += [event["data"]["name"] for event in answer["data"]]
        pages.append(answer["pagination"])
        after = answer["pagination"]["last_id"]
        if not answer["pagination"]["has_more"]:
            break
    assert names == [f"Lamp {number}" for number in range(7)]
    assert [page["has_more"] for page in pages] == [True, True, False]
    assert [page["limit"] for page in pages] == [3, 3, 3]
    empty = (await editor.get("/events", params={"after": after + 5})).json()
    assert empty == {
        "data": [],
        "pagination": {"limit": 25, "has_more": False, "last_id": after + 5},
    }


async def test_events_beyond_the_callers_scopes_are_hidden_or_403(api: Api) -> None:
    admin, viewer = await api.caller("admin"), await api.caller("viewer")
    before = await now(admin)
    await admin.post("/users", json=ADA)
    await admin.post("/products", json=LAMP)
    await admin.post("/api-keys/rotate")
    types = ["user.created", "product.created", "api_key.rotated"]
    assert [event["type"] for event in await told(admin, after=before)] == types
    assert [event["type"] for event in await told(viewer, after=before)] == types[:2]
    answer = await viewer.get("/events", params={"type": "product.created,api_key.*"})
    refused(answer, 403, "PERMISSION_DENIED")


async def test_types_are_chosen_by_name_and_by_noun(api: Api) -> None:
    admin = await api.caller("admin")
    await admin.post("/users", json=ADA)
    made = (await admin.post("/products", json=LAMP)).json()["data"]
    await admin.patch(f"/products/{made['id']}", json={"price": 1})

    async def types(chosen: str) -> list[str]:
        return [event["type"] for event in await told(admin, type=chosen)]

    assert await types("product.*") == ["product.created", "product.updated"]
    assert await types("product.updated,user.*") == ["user.created", "product.updated"]
    assert await types("products.*") == []


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "query",
    [
        {"type": "product.sold"},
        {"type": "*"},
        {"type": "ping"},
        {"type": "product.created,"},
        {"after": "-1"},
        {"after": "one"},
        {"after": str(2**63)},
        {"after": str(2**64)},
        {"limit": "0"},
        {"limit": "101"},
        {"page": "1"},
    ],
)
async def test_a_malformed_query_of_events_is_400(api: Api, query: dict[str, str]) -> None:
    admin = await api.caller("admin")
    answer = await admin.get("/events", params=query)
    assert refused(answer, 400, "VALIDATION_ERROR").keys() == query.keys()


async def test_events_that_are_no_longer_kept_are_gone(api: Api) -> None:
    editor = await api.caller("editor")
    for number in range(5):
        await editor.post("/products", json=LAMP | {"name": f"Lamp {number}"})
        api.clock.advance(days=1)
    ids = [event["id"] for event in await told(editor)]
    bound = api.clock() - 3 * 86_400_000 + 1
    assert await api.live[Events].is_due(bound)
    async with api.live.db.transaction() as tx:
        assert await api.live[Events].forget(tx, bound)
        assert not await api.live[Events].forget(tx, bound)
    assert [event["id"] for event in await told(editor)] == ids[3:]
    assert [event["id"] for event in await told(editor, after=ids[2])] == ids[3:]
    for query in ({"after": ids[1]}, {"after": ids[1], "type": "product.*"}):
        answer = await editor.get("/events", params=query)
        refused(answer, 410, "GONE")
        assert str(ids[3]) in answer.json()["error"]["message"]


class Tidied:
    """A database from which old events are removed after the first statement that reads some."""

    def __init__(self, api: Api) -> None:
        self._db = api.live.db
        self._api = api
        self._events = Events(api.live.db)
        self._read = 0

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        self._read += 1
        if self._read == 2:
            bound = self._api.clock() - 30 * DAY
            async with self._db.transaction() as tx:
                assert await self._events.forget(tx, bound)
        return await self._db.all(sql, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


async def half_old(api: Api) -> tuple[list[int], list[int]]:
    """The ids of events that are old and of those after them that are not: of both more than a
    statement reads."""
    for count in (30, 15):
        api.clock.advance(days=31)
        async with api.live.db.transaction() as tx:
            for _ in range(count):
                event = Published("product.created", "{}")
                await api.live[Events].add(tx, api.clock(), event)
    ids = [event.id for event in (await read_events(api.live[Events], 0, None, 100)).rows]
    return ids[:-15], ids[-15:]


@pytest.mark.parametrize("chosen", [{}, {"type": "product.*"}])
async def test_a_page_from_which_events_are_removed_while_it_is_read_is_gone(
    api: Api, chosen: dict[str, str]
) -> None:
    admin = await api.caller("admin")
    old, _ = await half_old(api)
    tidied: Any = Tidied(api)
    api.live[Events] = Events(tidied)
    answer = await admin.get("/events", params={"after": old[0], **chosen})
    refused(answer, 410, "GONE")


@pytest.mark.parametrize("chosen", [{}, {"type": "product.*"}])
async def test_from_the_oldest_on_a_page_has_no_hole_whatever_is_removed_meanwhile(
    api: Api, chosen: dict[str, str]
) -> None:
    admin = await api.caller("admin")
    _, kept = await half_old(api)
    tidied: Any = Tidied(api)
    api.live[Events] = Events(tidied)
    assert [event["id"] for event in await told(admin, **chosen)] == kept


async def test_a_change_that_is_undone_leaves_no_event(api: Api) -> None:
    broken = await api.broken_product()
    editor = await api.caller("editor")
    assert (await editor.patch(f"/products/{broken.id}", json={"name": "Other"})).status_code == 500
    assert await told(editor) == []


async def test_a_reader_beside_writers_misses_none_and_repeats_none(api: Api) -> None:
    editor, total = await api.caller("editor"), 60
    seen: list[str] = []

    async def read() -> None:
        after = 0
        while len(seen) < total:
            answer = (await editor.get("/events", params={"after": after, "limit": 7})).json()
            seen.extend(event["data"]["name"] for event in answer["data"])
            after = answer["pagination"]["last_id"]
            await asyncio.sleep(0)  # for those who write

    async def write(first: int) -> None:
        for number in range(first, total, 6):
            await editor.post("/products", json=LAMP | {"name": f"Lamp {number}"})

    async with asyncio.timeout(30):
        await asyncio.gather(read(), *map(write, range(6)))
    assert sorted(seen) == sorted(f"Lamp {number}" for number in range(total))


@pytest.mark.parametrize("environ", ["postgres+redis"], indirect=True)  # SQLite has one writer
async def test_an_event_that_is_committed_late_comes_after_those_that_were_read(api: Api) -> None:
    editor = await api.caller("editor")
    async with api.live.db.transaction() as tx:
        await api.live[Events].add(tx, api.clock(), Published("product.created", '{"slow": 1}'))
        await editor.post("/products", json=LAMP)
        (quick,) = await told(editor)
        assert quick["data"]["name"] == "Lamp"
    (slow,) = await told(editor, after=quick["id"])
    assert slow["data"] == {"slow": 1}


class Crowded:
    """A transaction beside which others commit events without a pause."""

    def __init__(self, api: Api, tx: Transaction) -> None:
        self._api = api
        self._tx = tx

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        async with self._api.live.db.transaction() as tx:
            event = Published("product.created", "{}")
            await self._api.live[Events].add(tx, self._api.clock(), event)
        return await self._tx.all(sql, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


@pytest.mark.parametrize("environ", ["postgres+redis"], indirect=True)  # SQLite needs no numbering
async def test_numbering_ends_while_others_go_on_writing(api: Api) -> None:
    async with asyncio.timeout(20), api.live.db.transaction() as tx:
        crowded: Any = Crowded(api, tx)
        await api.live[Events].settled_in(crowded)


@pytest.mark.parametrize("environ", ["postgres+redis"], indirect=True)  # SQLite needs no numbering
async def test_thousands_are_numbered_at_once_whatever_postgresql_expects(api: Api) -> None:
    async def happen(count: int) -> None:
        some = """
        INSERT INTO events (type, at, data)
        SELECT 'product.created', 1, '{}' FROM generate_series(1, :count)"""
        async with api.live.db.transaction() as tx:
            await tx.run(some, {"count": count})

    await happen(300)
    await api.live[Events].settle()
    async with api.live.db.transaction() as tx:
        await tx.script("ANALYZE events")  # so it expects none without a number
    await happen(3_000)
    with within(3):
        await api.live[Events].settle()
    assert await api.live[Events].last_id() == 3_300


def test_every_type_has_a_noun_and_a_verb() -> None:
    assert all(len(name.split(".")) == 2 for name in EVENT_TYPES)
