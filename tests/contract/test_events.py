"""Events: written with every change, read in order by a cursor (decisions §12)."""

import asyncio
from typing import Any

import pytest

from driving import Api, Caller, refused
from portico.core.audit import OPERATOR
from portico.core.events import Published
from portico.features.catalogue.products import PRODUCTS
from portico.features.events.storage import Events
from portico.features.people.accounts import give_key
from portico.features.people.sandbox import reset
from portico.features.people.storage import Users
from portico.resource.file_rows import FileRow
from portico.resource.imports import (
    IDLE_SECONDS,
    LARGE,
    BatchLimits,
    Spool,
    store_at_once,
    store_in_batches,
    tell_of_idle,
)
from signing_in import PASSWORD

LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 12.5}
WHOLE: dict[str, Any] = LAMP | {"price": 1}
ADA = {"name": "Ada", "email": "ada@example.com", "password": PASSWORD, "role": "editor"}
AT = "2026-03-15T12:00:00.000Z"


async def told(caller: Caller, **query: Any) -> list[dict[str, Any]]:
    """The events that a caller sees."""
    answer = await caller.get("/events", params=query)
    assert answer.status_code == 200, answer.text
    events: list[dict[str, Any]] = answer.json()["data"]
    return events


async def newest(caller: Caller) -> dict[str, Any] | None:
    return next(iter((await told(caller, limit=100))[-1:]), None)


async def test_product_events_have_the_product_as_read_and_previous_values(api: Api) -> None:
    editor = await api.caller("editor")
    made = (await editor.post("/products", json=LAMP | {"metadata": {"a": "b"}})).json()["data"]
    path = f"/products/{made['id']}"
    body = {"price": 13, "stock_quantity": 4, "metadata": {"a": "c"}}
    changed = (await editor.patch(path, json=body)).json()["data"]
    await editor.delete(path)
    created, updated, deleted = await told(editor)
    assert created == {
        "id": created["id"], "type": "product.created", "timestamp": AT, "data": made
    }  # fmt: skip
    assert (updated["type"], updated["data"]) == ("product.updated", changed)
    assert updated["previous"] == {
        "price": 12.5,
        "in_stock": False,
        "stock_quantity": 0,
        "metadata": {"a": "b"},
    }
    assert (deleted["type"], deleted["data"]) == ("product.deleted", changed)
    assert "previous" not in created | deleted


@pytest.mark.one_engine
async def test_user_events_have_current_and_previous_values(api: Api) -> None:
    admin = await api.caller("admin")
    made = (await admin.post("/users", json=ADA)).json()["data"]
    path = f"/users/{made['id']}"
    await admin.patch(path, json={"name": "Ada King", "preferences": {"theme": "dark"}})
    last = (await admin.get(path)).json()["data"]
    await admin.delete(path)
    created, updated, deleted = await told(admin, type="user.*")
    assert [e["type"].split(".")[1] for e in (created, updated, deleted)] == [
        *("created", "updated", "deleted")
    ]
    assert created["data"].items() >= made.items()
    preferences = {"theme": "system", "language": "en", "notifications": True}
    assert updated["previous"] == {"name": "Ada", "preferences": preferences}
    assert updated["data"] == deleted["data"] == last


@pytest.mark.one_engine
async def test_a_new_password_is_user_updated_without_values(api: Api) -> None:
    admin = await api.caller("admin")
    user = await api.account("viewer", password=PASSWORD)
    await admin.patch(f"/users/{user.id}", json={"password": "Another1Password"})
    await admin.patch(f"/users/{user.id}", json={"password": "Third1Password", "name": "Ada"})
    first, second = await told(admin, type="user.updated")
    assert first["previous"] == {}
    assert second["previous"] == {"name": user.name}
    assert "assword" not in str(first) + str(second)


@pytest.mark.one_engine
async def test_a_change_without_visible_effect_makes_no_event(api: Api) -> None:
    admin = await api.caller("admin")
    user = await api.account("viewer", password=PASSWORD)
    product = await api.product(metadata='{"colour":"brass","room":"hall"}')
    broken = await api.broken_product()
    before = await newest(admin)
    await admin.patch(f"/users/{user.id}", json={"name": user.name})
    for body in ({"name": "Lamp"}, {"metadata": {"room": "hall", "colour": "brass"}}):
        assert (await admin.patch(f"/products/{product.id}", json=body)).status_code == 200
    credentials = {"email": user.email, "password": PASSWORD}
    assert (await admin.post("/sessions", json=credentials)).status_code == 201
    assert (await admin.post("/products", json=LAMP | {"price": -1})).status_code == 422
    assert (await admin.patch(f"/products/{broken.id}", json={"name": "Other"})).status_code == 500
    assert await newest(admin) == before


@pytest.mark.one_engine
async def test_api_key_events_have_no_secret(api: Api) -> None:
    admin = await api.caller("admin")
    user = await api.account("viewer")
    record, secret = await give_key(
        api.live, user, name="Shop", key_type="live", expires_at=None, by=OPERATOR
    )
    rotated = (await admin.post("/api-keys/rotate")).json()["data"]
    created, event = (await told(admin))[-2:]
    assert created["type"] == "api_key.created"
    assert created["data"] == (await admin.get(f"/api-keys/{record.id}")).json()["data"]
    assert event["type"] == "api_key.rotated"
    assert event["data"]["id"] == rotated["id"]
    assert event["data"]["previous_key"] == rotated["previous_key"]
    assert secret not in str(created)
    assert rotated["key"] not in str(event)


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
            await store_at_once(api.live, PRODUCTS, spool, OPERATOR, lambda _: None)
    else:
        async for _ in store_in_batches(api.live, PRODUCTS, rows, OPERATOR, BatchLimits(2, 1024)):
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


async def test_an_idle_import_gets_an_event_for_its_stored_rows(api: Api) -> None:
    editor = await api.caller("editor")
    importing = store_in_batches(
        api.live, PRODUCTS, [FileRow(1, 0, WHOLE, [])] * (2 * LARGE.rows), OPERATOR
    )

    async def after(seconds: int) -> list[dict[str, Any]]:
        api.clock.advance(seconds=seconds)
        await tell_of_idle(api.live)
        return [event["data"] for event in await told(editor, type="products.imported")]

    await anext(importing)
    assert await after(IDLE_SECONDS - 1) == []
    (first,) = await after(1)
    assert first["inserted"] == LARGE.rows
    assert first["inserted_ids"] == list(range(first["first_id"], first["last_id"] + 1))
    assert [outcome.inserted async for outcome in importing] == [LARGE.rows]
    _, rest = await after(IDLE_SECONDS)
    assert (rest["first_id"], rest["inserted"]) == (first["last_id"] + 1, LARGE.rows)


@pytest.mark.one_engine
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
    events = await told(sandbox)
    types = [event["type"] for event in events]
    assert types == ["user.created", "api_key.created", "sandbox.reset"]
    assert events[-1]["data"] == {"users": filled.users, "products": filled.products}
    assert {event["type"] for event in await told(live)} == {"api_key.created"}  # the admin's own
    await sandbox.aclose()


async def test_a_reader_walks_through_all_events_by_the_last_id(api: Api) -> None:
    editor = await api.caller("editor")
    for number in range(7):
        await editor.post("/products", json=LAMP | {"name": f"Lamp {number}"})
    after, names = 0, []
    more: list[bool] = []
    while not more or more[-1]:
        answer = (await editor.get("/events", params={"after": after, "limit": 3})).json()
        names += [event["data"]["name"] for event in answer["data"]]
        after = answer["pagination"]["last_id"]
        more.append(answer["pagination"]["has_more"])
    assert names == [f"Lamp {number}" for number in range(7)]
    assert more == [True, True, False]
    assert (await editor.get("/events", params={"after": after + 5})).json() == {
        "data": [],
        "pagination": {"limit": 25, "has_more": False, "last_id": after + 5},
    }


@pytest.mark.one_engine
async def test_events_are_chosen_by_type_and_hidden_or_403_beyond_scopes(api: Api) -> None:
    admin, viewer = await api.caller("admin"), await api.caller("viewer")
    await admin.post("/users", json=ADA)
    made = (await admin.post("/products", json=LAMP)).json()["data"]
    await admin.post("/api-keys/rotate")
    await admin.patch(f"/products/{made['id']}", json={"price": 1})

    async def types(caller: Caller, chosen: str | None = None) -> list[str]:
        return [e["type"] for e in await told(caller, **({"type": chosen} if chosen else {}))]

    all_types = ["user.created", "product.created", "api_key.rotated", "product.updated"]
    assert (await types(admin))[-4:] == all_types
    assert await types(viewer) == [name for name in all_types if "key" not in name]
    assert await types(admin, "product.*") == ["product.created", "product.updated"]
    assert await types(admin, "product.updated,user.*") == ["user.created", "product.updated"]
    assert await types(admin, "products.*") == []
    answer = await viewer.get("/events", params={"type": "product.created,api_key.*"})
    refused(answer, 403, "PERMISSION_DENIED")


BAD_QUERIES = {
    "type": ("product.sold", "*", "ping", "product.created,"),
    "after": ("-1", "one", str(2**63)),
    "limit": ("0", "101"),
    "page": ("1",),
}


@pytest.mark.one_engine
async def test_a_malformed_query_of_events_is_400(api: Api) -> None:
    admin = await api.caller("admin")
    for field, values in BAD_QUERIES.items():
        for value in values:
            answer = await admin.get("/events", params={field: value})
            assert refused(answer, 400, "VALIDATION_ERROR").keys() == {field}, value


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
