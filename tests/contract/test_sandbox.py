"""Two environments that share nothing but the accounts' mirrors (decisions §3)."""

import asyncio
from importlib.resources import files
from typing import Any

import msgspec
import pytest

from driving import BASE, Api, Caller, refused
from operating import eventually
from owned import set_plan
from portico.core.audit import OPERATOR
from portico.core.resources import SCOPED
from portico.core.users import AccountState, User
from portico.features.access.storage import ApiKeys
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.storage import Products
from portico.features.people.accounts import give_key
from portico.features.people.mirrors import outdated_mirrors
from portico.features.people.sandbox import reset
from portico.features.people.storage import Users
from signing_in import PASSWORD

LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 1, "status": "active"}


async def live_state(api: Api) -> dict[str, Any]:
    return {name: rows for name, rows in (await api.state()).items() if name.startswith("live")}


async def mirror(api: Api, account: User) -> User | None:
    return await api.sandbox[Users].by_account(account.id)


@pytest.mark.one_engine
async def test_a_resource_of_one_environment_is_not_in_the_other(api: Api) -> None:
    live = await api.caller("admin", "live")
    test = await api.caller("admin", "test", user=live.user)
    for caller, other, base in ((live, test, BASE["live"]), (test, live, BASE["sandbox"])):
        made = await caller.post("/products", json=LAMP)
        where = made.headers["location"]
        assert where == f"{base}/products/{made.json()['data']['id']}"
        assert (await caller.get("/products?search=lamp")).json()["pagination"]["total_items"] == 1
        total = (await other.get("/products?search=lamp")).json()["pagination"]["total_items"]
        assert total == (0 if caller is live else 1)
        new = {"name": "Ada", "email": "ada@example.com", "password": "Passw0rdd"}
        assert (await caller.post("/users", json=new)).status_code == 201


@pytest.mark.one_engine
async def test_nothing_that_is_done_in_the_sandbox_touches_live_data(api: Api) -> None:
    test = await api.caller("admin", "test")
    live_user, live_product = await api.account(), await api.product()
    before = await live_state(api)
    me = (await test.get("/users/me")).json()["data"]["id"]
    await test.post("/products", json=LAMP)
    await test.patch("/users/me", json={"name": "Changed"})
    await api.account("admin", env=api.sandbox)
    for number in range(1, 6):
        await test.patch(f"/users/{number}", json={"name": "Changed", "role": "viewer"})
        await test.delete(f"/products/{number}")
    await test.post("/api-keys/rotate")
    refused(await test.delete(f"/users/{me}"), 409)
    assert await live_state(api) == before
    assert await api.live[Users].get(live_user.id) == live_user
    assert await api.live[Products].get(live_product.id) == live_product


async def test_a_first_sandbox_key_makes_a_mirror_and_later_ones_use_it(api: Api) -> None:
    namesake = await api.account("admin", env=api.sandbox, email="ada@example.com")
    first = await api.caller("viewer", "test", plan="pro", email="ADA@example.com")
    second = await api.caller(user=first.user, key_type="test")
    seen = (await first.get("/users/me")).json()["data"]
    assert (await second.get("/users/me")).json()["data"] == seen
    assert (seen["name"], seen["email"]) == (first.user.name, "ADA@example.com")
    found = await mirror(api, first.user)
    assert found is not None
    assert (found.id, found.role, found.plan) == (seen["id"], "viewer", "pro")
    assert found.password_hash is None
    assert await api.sandbox[Users].get(namesake.id) is None


async def test_concurrent_first_sandbox_keys_make_one_mirror(api: Api) -> None:
    for _ in range(3):
        account = await api.account("editor")
        keys = (
            give_key(api.live, account, name="K", key_type="test", expires_at=None, by=OPERATOR)
            for _ in range(6)
        )
        made = await asyncio.gather(*keys)
        assert len({record.user_id for record, _ in made}) == 1


@pytest.mark.one_engine
async def test_a_mirror_follows_role_plan_and_deletion_of_its_account(api: Api) -> None:
    admin = await api.caller("admin")
    caller = await api.caller("editor", "test")
    where = f"/users/{caller.user.id}"
    assert (await caller.post("/products", json=LAMP)).status_code == 201
    await admin.patch(where, json={"role": "viewer", "name": "Another"})
    refused(await caller.post("/products", json=LAMP), 403, "PERMISSION_DENIED")
    await set_plan(api.live, caller.user.email, "pro", OPERATOR)
    me = await caller.get("/users/me")
    assert me.headers["x-ratelimit-limit"] == "100"
    assert me.json()["data"]["name"] == caller.user.name
    assert (await admin.delete(where)).status_code == 204
    refused(await caller.get("/users/me"), 401, "AUTHENTICATION_REQUIRED")
    assert await mirror(api, caller.user) is None
    assert await api.sandbox[ApiKeys].get(caller.record.id) is None


@pytest.mark.one_engine
async def test_a_mirror_is_changed_and_deleted_in_live_only(api: Api) -> None:
    boss, viewer = await api.caller("admin", "test"), await api.caller("viewer", "test")
    own = await api.account("viewer", env=api.sandbox)
    where, new = f"/users/{viewer.record.user_id}", {"password": "N3w-Password"}
    async with api.unchanged():
        for values in ({"role": "admin"}, {"email": "new@example.com"}, new):
            refused(await boss.patch(where, json=values), 409, "CONFLICT")
        for current in ({}, {"current_password": PASSWORD}):
            refused(await viewer.patch("/users/me", json=new | current), 409, "CONFLICT")
        for mirrored in (viewer.record.user_id, boss.record.user_id):
            refused(await boss.delete(f"/users/{mirrored}"), 409, "CONFLICT")
    for path, values in (
        (where, {"role": "viewer", "email": viewer.user.email, "name": "Eve"}),
        (f"/users/{own.id}", {"role": "editor", "email": "new@example.com"}),
    ):
        assert (await boss.patch(path, json=values)).status_code == 200


async def test_a_start_brings_outdated_mirrors_up_to_date(api: Api) -> None:
    stays, leaves, same = [await api.caller("editor", "test") for _ in range(3)]
    untouched = await mirror(api, same.user)
    await unseen(api, stays.user, role="viewer", plan="pro")
    async with api.live.db.transaction() as tx:
        await api.live[Users].delete(tx, leaves.user.id)
    assert sorted(await outdated_mirrors(api.live)) == [stays.user.id, leaves.user.id]
    await api.stop()
    await api.start()
    await brought_up(api)
    found = await mirror(api, stays.user)
    assert found is not None
    assert (found.role, found.plan) == ("viewer", "pro")
    refused(await leaves.get("/users/me"), 401)
    assert await mirror(api, same.user) == untouched


MISSED = {
    "email": "new@example.com",
    "email_verified_at": 1,
    "role": "viewer",
    "plan": "pro",
    "language": "de",
    "notifications": False,
    "muted": "keys roles",
    "suspended_at": 1,
}


async def test_every_shared_field_of_a_mirror_is_brought_up_to_date(api: Api) -> None:
    assert MISSED.keys() == set(AccountState.__struct_fields__)
    await api.caller("editor", "test")
    callers = {name: await api.caller("editor", "test") for name in MISSED}
    for name, caller in callers.items():
        await unseen(api, caller.user, **{name: MISSED[name]})
    assert await outdated_mirrors(api.live) == [caller.user.id for caller in callers.values()]
    api.live.mirror_is_behind.set()
    await brought_up(api)
    for name, caller in callers.items():
        assert getattr(await mirror(api, caller.user), name) == MISSED[name]


async def test_mirrors_that_missed_an_exchange_of_emails_exchange_them_later(api: Api) -> None:
    watcher = await api.caller("admin", "test")
    callers = [await api.caller("editor", "test") for _ in range(3)]
    emails = [caller.user.email for caller in callers]
    turned = [*emails[1:], emails[0]]
    await unseen(api, callers[-1].user, email="between@example.com")
    for number in (1, 0, -1):
        await unseen(api, callers[number].user, email=turned[number])
    api.live.mirror_is_behind.set()
    await brought_up(api)
    assert [await email(caller) for caller in callers] == turned
    assert await happened(watcher) == ["user.created"] * 3 + ["user.updated"] * 3


async def test_after_concurrent_changes_accounts_and_mirrors_agree(api: Api) -> None:
    admin = await api.caller("admin")
    callers = [await api.caller("editor", "test") for _ in range(3)]
    for number in range(3):
        changes = [
            admin.patch(
                f"/users/{caller.user.id}",
                json={
                    "email": f"{(at + number + more) % 4}@example.com",
                    "role": ("editor", "viewer")[more % 2],
                },
            )
            for more in range(3)
            for at, caller in enumerate(callers)
        ]
        await asyncio.gather(*changes)
    await brought_up(api)
    for caller in callers:
        account, found = await api.live[Users].get(caller.user.id), await mirror(api, caller.user)
        assert account is not None
        assert found is not None
        assert (found.email, found.role) == (account.email, account.role)


@pytest.mark.one_engine
async def test_a_sandbox_user_makes_way_for_a_mirrors_new_email(api: Api) -> None:
    admin, watcher = await api.caller("admin"), await api.caller("admin", "test")
    ada = await api.caller("editor", "test")
    body = {"name": "Own", "email": "new@example.com", "password": "Passw0rdd"}
    own = (await watcher.post("/users", json=body)).json()["data"]["id"]
    where = f"/users/{ada.user.id}"
    assert (await admin.patch(where, json={"email": "NEW@example.com"})).status_code == 200
    assert await email(ada) == "NEW@example.com"
    refused(await watcher.get(f"/users/{own}"), 404)
    made, gone = ["user.created"] * 2, ["user.deleted", "user.updated"]
    assert await happened(watcher) == made + gone


async def email(caller: Caller) -> str:
    answer = await caller.get("/users/me")
    assert answer.status_code == 200
    found: str = answer.json()["data"]["email"]
    return found


async def happened(watcher: Caller) -> list[str]:
    """The types of the events of the sandbox since its watcher came, oldest first."""
    events = (await watcher.get("/events?limit=100")).json()["data"]
    return [event["type"] for event in events if event["type"].startswith("user.")][1:]


async def unseen(api: Api, account: User, **values: Any) -> None:
    """Changes an account as if the sandbox had been out of reach."""
    async with api.live.db.transaction() as tx:
        await api.live[Users].update(tx, msgspec.structs.replace(account, **values))


async def brought_up(api: Api) -> None:
    """Waits until the server's job has brought up every mirror."""

    async def is_done() -> bool:
        return not (api.live.mirror_is_behind.is_set() or await outdated_mirrors(api.live))

    await eventually(is_done, "the last mirror")


async def test_a_reset_fills_the_kinds_that_have_samples_and_no_others(api: Api) -> None:
    await reset(api.sandbox, OPERATOR)
    users = files("portico.features.people") / "samples" / "users.ndjson"
    made = {"users": len(users.read_bytes().splitlines()), "products": len(PRODUCTS.sample_lines)}
    for kind in SCOPED:
        assert (kind.plural in made) == kind.samples
        count = f"SELECT count(*) FROM {kind.plural}"  # noqa: S608 - a known table
        assert await api.sandbox.db.one(count) == (made.get(kind.plural, 0),)
