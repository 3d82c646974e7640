"""Two environments that share nothing but the accounts' mirrors (decisions §3)."""

import asyncio
from typing import Any

import msgspec
import pytest

from driving import BASE, Api, Caller, refused
from operating import eventually
from portico.core.audit import OPERATOR
from portico.core.errors import Unavailable
from portico.core.users import Shared, User
from portico.features.access.storage import ApiKeys
from portico.features.catalogue.storage import Products
from portico.features.events.audit import Audit, AuditFilter
from portico.features.people.accounts import give_key, set_plan
from portico.features.people.mirrors import outdated_mirrors
from portico.features.people.storage import Users
from signing_in import PASSWORD

LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 1, "status": "active"}


async def live_state(api: Api) -> dict[str, Any]:
    return {name: rows for name, rows in (await api.state()).items() if name.startswith("live")}


async def mirror(api: Api, account: User) -> User | None:
    return await api.sandbox[Users].by_account(account.id)


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


@pytest.mark.parametrize("role", ["viewer", "editor", "admin"])
async def test_a_first_sandbox_key_makes_a_mirror_and_later_ones_use_it(
    api: Api, role: str
) -> None:
    first = await api.caller(role, "test", plan="pro")
    second = await api.caller(user=first.user, key_type="test")
    seen = (await first.get("/users/me")).json()["data"]
    assert (await second.get("/users/me")).json()["data"] == seen
    assert (seen["name"], seen["email"], seen["role"]) == (first.user.name, first.user.email, role)
    found = await mirror(api, first.user)
    assert found is not None
    assert (found.id, found.role, found.plan) == (seen["id"], role, "pro")
    assert found.password_hash is None


async def test_concurrent_first_sandbox_keys_make_one_mirror(api: Api) -> None:
    for _ in range(5):
        account = await api.account("editor")
        made = await asyncio.gather(
            *(
                give_key(
                    api.live, account, name="Key", key_type="test", expires_at=None, by=OPERATOR
                )
                for _ in range(6)
            )
        )
        assert len({record.user_id for record, _ in made}) == 1
        assert len({key for _, key in made}) == 6


async def test_a_namesake_in_the_sandbox_becomes_the_mirror(api: Api) -> None:
    namesake = await api.account("admin", env=api.sandbox, email="ada@example.com")
    caller = await api.caller("viewer", "test", email="ADA@example.com")
    seen = (await caller.get("/users/me")).json()["data"]
    assert (seen["email"], seen["role"]) == ("ADA@example.com", "viewer")
    assert await api.sandbox[Users].get(namesake.id) is None


async def test_a_mirror_follows_role_and_plan(api: Api) -> None:
    admin = await api.caller("admin")
    caller = await api.caller("editor", "test")
    assert (await caller.post("/products", json=LAMP)).status_code == 201
    await admin.patch(f"/users/{caller.user.id}", json={"role": "viewer"})
    refused(await caller.post("/products", json=LAMP), 403, "PERMISSION_DENIED")
    await set_plan(api.live, caller.user.email, "pro", OPERATOR)
    assert (await caller.get("/users/me")).headers["x-ratelimit-limit"] == "100"
    await admin.patch(f"/users/{caller.user.id}", json={"name": "Another"})
    assert (await caller.get("/users/me")).json()["data"]["name"] == caller.user.name


async def test_a_mirror_has_role_email_and_password_changed_in_live_only(api: Api) -> None:
    boss, viewer = await api.caller("admin", "test"), await api.caller("viewer", "test")
    own = await api.account("viewer", env=api.sandbox)
    mirrored = viewer.record.user_id
    for values in ({"role": "admin"}, {"email": "new@example.com"}, {"password": "N3w-Password"}):
        refused(await boss.patch(f"/users/{mirrored}", json=values), 409, "CONFLICT")
    for user_id, values in (
        (mirrored, {"role": "viewer", "email": viewer.user.email, "name": "Eve"}),
        (own.id, {"role": "editor", "email": "new@example.com"}),
    ):
        assert (await boss.patch(f"/users/{user_id}", json=values)).status_code == 200


async def test_a_password_change_by_a_mirror_is_409(api: Api) -> None:
    caller = await api.caller("viewer", "test")
    for current in ({}, {"current_password": PASSWORD}):
        async with api.unchanged():
            answer = await caller.patch("/users/me", json={"password": "N3w-Password"} | current)
        refused(answer, 409, "CONFLICT")


async def test_deleting_a_mirror_is_409_and_its_keys_go_on(api: Api) -> None:
    boss, caller = await api.caller("admin", "test"), await api.caller("editor", "test")
    for mirrored in (caller.record.user_id, boss.record.user_id):
        async with api.unchanged():
            refused(await boss.delete(f"/users/{mirrored}"), 409, "CONFLICT")
    assert (await caller.get("/users/me")).status_code == 200


async def test_a_deleted_account_takes_its_mirror_and_sandbox_keys_along(api: Api) -> None:
    admin = await api.caller("admin")
    caller = await api.caller("editor", "test")
    assert (await admin.delete(f"/users/{caller.user.id}")).status_code == 204
    refused(await caller.get("/users/me"), 401, "AUTHENTICATION_REQUIRED")
    assert await mirror(api, caller.user) is None
    assert await api.sandbox[ApiKeys].get(caller.record.id) is None


async def test_after_concurrent_changes_account_and_mirror_agree(api: Api) -> None:
    admin = await api.caller("admin")
    caller = await api.caller("viewer", "test")
    where = f"/users/{caller.user.id}"
    for _ in range(5):
        await asyncio.gather(
            *(admin.patch(where, json={"role": role}) for role in ("editor", "viewer") * 3),
            set_plan(api.live, caller.user.email, "pro", OPERATOR),
            set_plan(api.live, caller.user.email, "free", OPERATOR),
        )
        account = await api.live[Users].get(caller.user.id)
        found = await mirror(api, caller.user)
        assert account is not None
        assert found is not None
        assert (found.role, found.plan) == (account.role, account.plan)


async def test_a_start_brings_outdated_mirrors_up_to_date(api: Api) -> None:
    stays, leaves, same = [await api.caller("editor", "test") for _ in range(3)]
    untouched = await mirror(api, same.user)
    async with api.live.db.transaction() as tx:  # as if the sandbox had been out of reach
        await tx.run("UPDATE users SET role = 'viewer', plan = 'pro' WHERE id = :id", id_of(stays))
        await tx.run("DELETE FROM users WHERE id = :id", id_of(leaves))
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
    assert MISSED.keys() == set(Shared.__struct_fields__)
    await api.caller("editor", "test")
    callers = {name: await api.caller("editor", "test") for name in MISSED}
    for name, caller in callers.items():
        await unseen(api, caller.user, **{name: MISSED[name]})
    assert await outdated_mirrors(api.live) == [caller.user.id for caller in callers.values()]
    api.live.mirror_is_behind.set()
    await brought_up(api)
    for name, caller in callers.items():
        assert getattr(await mirror(api, caller.user), name) == MISSED[name]


async def test_wishes_for_mails_reach_a_mirror_that_was_out_of_reach(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = await api.caller("editor")
    test = await api.caller(user=live.user, key_type="test")

    async def away(*_: object) -> None:
        raise Unavailable("The database does not answer.")

    wishes = {"language": "de", "notifications": False}
    with monkeypatch.context() as context:
        context.setattr(api.sandbox, "change", away)
        assert (await live.patch("/users/me", json={"preferences": wishes})).status_code == 200
    await brought_up(api)
    seen = (await test.get("/users/me")).json()["data"]["preferences"]
    assert seen == {"theme": "system", **wishes}


async def test_an_old_email_that_another_account_gets_costs_no_mirror(api: Api) -> None:
    admin, watcher = await api.caller("admin"), await api.caller("admin", "test")
    ada = await api.caller("editor", "test", email="ada@example.com")
    where = f"/users/{ada.user.id}"
    assert (await admin.patch(where, json={"email": "new@example.com"})).status_code == 200
    assert await email(ada) == "new@example.com"
    bob = await api.caller("viewer", "test", email="ada@example.com")
    assert [await email(ada), await email(bob)] == ["new@example.com", "ada@example.com"]
    assert await happened(watcher) == ["user.created", "user.updated", "user.created"]


async def test_a_mirror_that_missed_a_new_email_gets_it_when_another_needs_the_old_one(
    api: Api,
) -> None:
    watcher = await api.caller("admin", "test")
    ada = await api.caller("editor", "test", email="ada@example.com")
    await unseen(api, ada.user, email="new@example.com")
    bob = await api.account("viewer", email="ada@example.com")
    await api.caller(user=bob, key_type="test")
    assert await email(ada) == "new@example.com"
    found = await mirror(api, bob)
    assert found is not None
    assert found.email == "ada@example.com"
    assert await happened(watcher) == ["user.created", "user.updated", "user.created"]
    (moved,) = await api.sandbox[Audit].page(AuditFilter(action="user.changed"), limit=9)
    assert (moved.credential, moved.user_id) == ("system", None), "not by whoever needed it"


async def test_two_accounts_that_exchange_their_emails_keep_their_mirrors(api: Api) -> None:
    admin, watcher = await api.caller("admin"), await api.caller("admin", "test")
    ada, bob = [
        await api.caller("editor", "test", email=f"{name}@example.com") for name in ("ada", "bob")
    ]
    for caller, name in ((ada, "between"), (bob, "ada"), (ada, "bob")):
        body = {"email": f"{name}@example.com"}
        assert (await admin.patch(f"/users/{caller.user.id}", json=body)).status_code == 200
    assert [await email(ada), await email(bob)] == ["bob@example.com", "ada@example.com"]
    assert await happened(watcher) == ["user.created"] * 2 + ["user.updated"] * 3


@pytest.mark.parametrize("count", [2, 3])
async def test_mirrors_that_missed_an_exchange_of_emails_exchange_them_later(
    api: Api, count: int
) -> None:
    watcher = await api.caller("admin", "test")
    callers = [await api.caller("editor", "test") for _ in range(count)]
    emails = [caller.user.email for caller in callers]
    turned = [*emails[1:], emails[0]]
    await unseen(api, callers[-1].user, email="between@example.com")
    for number in (*reversed(range(count - 1)), -1):
        await unseen(api, callers[number].user, email=turned[number])
    api.live.mirror_is_behind.set()
    await brought_up(api)
    assert [await email(caller) for caller in callers] == turned
    assert await happened(watcher) == ["user.created"] * count + ["user.updated"] * count


async def test_after_concurrent_changes_of_emails_accounts_and_mirrors_agree(api: Api) -> None:
    admin = await api.caller("admin")
    callers = [await api.caller("editor", "test") for _ in range(3)]
    emails = [f"{name}@example.com" for name in "abcd"]
    for number in range(5):
        await asyncio.gather(
            *(
                admin.patch(
                    f"/users/{caller.user.id}", json={"email": emails[(at + number + more) % 4]}
                )
                for more in range(3)
                for at, caller in enumerate(callers)
            )
        )
    await brought_up(api)
    for caller in callers:
        account = await api.live[Users].get(caller.user.id)
        assert account is not None
        assert await email(caller) == account.email


async def test_the_mirror_of_an_account_that_is_gone_gives_its_email_away(api: Api) -> None:
    ada = await api.caller("editor", "test", email="ada@example.com")
    async with api.live.db.transaction() as tx:  # as if the sandbox had been out of reach
        await api.live[Users].delete(tx, ada.user.id)
    bob = await api.caller("viewer", "test", email="ada@example.com")
    assert await email(bob) == "ada@example.com"
    assert await mirror(api, ada.user) is None
    refused(await ada.get("/users/me"), 401)


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


async def test_a_first_test_key_mirrors_the_account_as_stored(api: Api) -> None:
    ada = await api.account(email="ada@example.com")
    await unseen(api, ada, email="new@example.com")
    bob = await api.caller("viewer", "test", email="ada@example.com")
    caller = await api.caller(user=ada, key_type="test")
    assert [await email(caller), await email(bob)] == ["new@example.com", "ada@example.com"]


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


def id_of(caller: Caller) -> dict[str, int]:
    return {"id": caller.user.id}
