"""What a reset of the sandbox takes along, and what outlives it (decisions §3)."""

import asyncio
import json
from typing import Any

import pytest

from driving import Api
from portico.core.audit import OPERATOR
from portico.core.oauth import Client
from portico.core.secrets import digest
from portico.core.times import DAY
from portico.core.users import User
from portico.features.access.api_keys import create_key
from portico.features.access.rules import NewKey
from portico.features.access.storage import Clients
from portico.features.catalogue.products import PRODUCTS
from portico.features.events.audit import Audit
from portico.features.events.storage import Events
from portico.features.people.sandbox import reset
from portico.features.people.storage import EmailToken, EmailTokens, Users
from portico.features.signin.storage import Sessions
from portico.resource.file_rows import FileRow
from portico.resource.imports import BatchLimits, store_in_batches
from signing_in import client_of, code_of, login_of, session_of, tokens_of

OF_USERS = (
    *("api_keys", "sessions", "grants", "authorization_codes"),
    *("known_addresses", "email_tokens"),
)


async def give(api: Api, user: User, shop: Client) -> None:
    """Lets a user of the sandbox sign in, consent, have a key and be sent an e-mail."""
    env = api.sandbox
    await create_key(env, user.id, NewKey(name="Key", type="test"), OPERATOR)
    await session_of(env, user)
    await login_of(env, user)
    await tokens_of(env, shop, user)
    await code_of(env, shop, user)
    async with env.db.transaction() as tx:
        await env[Sessions].know_address(tx, user.id, "192.0.2.1", api.clock())
        token = EmailToken(user.id, "verify", "a@example.com", api.clock() + DAY)
        await env[EmailTokens].insert(tx, digest(str(user.id)), token)


async def owners(api: Api) -> dict[str, set[Any]]:
    """Whose rows there are in the sandbox, by table."""
    held = {}
    for table in OF_USERS:
        rows = await api.sandbox.db.all(f"SELECT user_id FROM {table}")  # noqa: S608 - constants
        held[table] = {row[0] for row in rows}
    return held


async def test_a_reset_keeps_mirrors_and_theirs_clients_and_audit_and_nothing_else(
    api: Api,
) -> None:
    caller = await api.caller("admin", "test")
    mirror = await api.sandbox[Users].by_account(caller.user.id)
    assert mirror is not None
    other = await api.account("editor", env=api.sandbox)
    shop = (await client_of(api.sandbox, other)).client
    for user in (mirror, other):
        await give(api, user, shop)
    live_before = {
        name: rows for name, rows in (await api.state()).items() if name.startswith("live")
    }
    noted = await api.sandbox[Audit].page(limit=99)
    assert await owners(api) == {table: {mirror.id, other.id} for table in OF_USERS}

    await reset(api.sandbox, OPERATOR)

    assert await owners(api) == {table: {mirror.id} for table in OF_USERS}
    pairs = await api.sandbox.db.one("SELECT count(*) FROM tokens")
    assert pairs is not None
    assert pairs[0] == 2, "both of the mirror's"
    [[client]] = [batch async for batch in api.sandbox[Clients].batches()]
    assert (client.client_id, client.user_id) == (shop.client_id, None)
    assert (await api.sandbox[Audit].page(limit=99))[1:] == noted
    assert (await caller.get("/users/me")).status_code == 200
    after = await api.state()
    assert {name: rows for name, rows in after.items() if name.startswith("live")} == live_before


@pytest.mark.parametrize("environ", ["postgres+redis"], indirect=True)  # SQLite has one writer
async def test_what_is_made_beside_a_reset_and_outlives_it_is_told_after_it(api: Api) -> None:
    caller = await api.caller("admin", "test")
    over = asyncio.Event()

    async def make() -> None:
        while not over.is_set():
            lamp = {"name": "Made beside", "category": "light", "price": 1, "status": "active"}
            assert (await caller.post("/products", json=lamp)).status_code == 201

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(make())
        for _ in range(3):
            await reset(api.sandbox, OPERATOR)
        over.set()

    await api.sandbox[Events].number()
    events, after = [], 0
    while page := (await api.sandbox[Events].page(after, None, 100)).rows:
        events += page
        after = page[-1].id
    last = max(event.id for event in events if event.type == "sandbox.reset")
    made = [event for event in events if event.type == "product.created"]
    told = {json.loads(event.data)["id"] for event in made if event.id > last}
    beside = "SELECT id FROM products WHERE name = 'Made beside'"
    assert {row[0] for row in await api.sandbox.db.all(beside)} == told


@pytest.mark.parametrize("environ", ["postgres+redis"], indirect=True)  # SQLite has one writer
async def test_a_reset_and_those_who_change_and_remove_beside_it_do_not_wait_in_a_ring(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.change.TRIES", 1)  # else it would be done again
    await reset(api.sandbox, OPERATOR)
    caller = await api.caller("admin", "test")
    over = asyncio.Event()
    answers: list[int] = []

    async def each(kind: str, sql: str, *, changes: bool) -> None:
        while not over.is_set():
            for (row_id,) in await api.sandbox.db.all(sql):
                if changes:
                    name = {"name": f"Changed {len(answers)}"}
                    answer = await caller.patch(f"/{kind}/{row_id}", json=name)
                else:
                    answer = await caller.delete(f"/{kind}/{row_id}")
                answers.append(answer.status_code)
            await asyncio.sleep(0)

    products = "SELECT id FROM products ORDER BY id LIMIT 9"
    samples = "SELECT id FROM users WHERE account_id IS NULL ORDER BY id LIMIT 9"
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(each("products", products, changes=True))
            group.create_task(each("products", products, changes=False))
            group.create_task(each("users", samples, changes=True))
            group.create_task(each("users", samples, changes=False))
        for _ in range(4):
            await reset(api.sandbox, OPERATOR)
            await asyncio.sleep(0.02)
        over.set()

    assert set(answers) <= {200, 204, 404}


@pytest.mark.one_engine
async def test_an_import_of_which_a_reset_takes_some_is_told_in_parts(api: Api) -> None:
    lamp = {"name": "Lamp", "description": "", "category": "light", "price": 1, "currency": "USD"}
    values = {**lamp, "stock_quantity": 1, "status": "active"}
    rows = [FileRow(line, line, values, []) for line in (1, 2)]
    batches = store_in_batches(api.sandbox, PRODUCTS, rows, OPERATOR, BatchLimits(1, 1 << 20))
    await anext(batches)
    await reset(api.sandbox, OPERATOR)
    [_ async for _ in batches]

    await api.sandbox[Events].number()
    page = await api.sandbox[Events].page(0, None, 9)
    told = [(one.type, json.loads(one.data).get("inserted")) for one in page.rows]
    assert told == [("products.imported", 1), ("sandbox.reset", None), ("products.imported", 1)]
