"""What every operation leaves in the audit log, and what leaves nothing there."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from audit.conftest import Noted
from driving import Api, Caller
from operating import bytes_in
from owned import set_plan
from passkey_device import Authenticator, owner, register, sign_in_by
from portico.core.audit import OPERATOR, Actor, Author
from portico.features.access.api_keys import revoke_key
from portico.features.access.rules import KEY_TYPES
from portico.features.catalogue.products import PRODUCTS
from portico.features.events.audit import Audit
from portico.features.people.accounts import give_key
from portico.features.people.sandbox import reset
from portico.features.people.storage import Users
from portico.features.signin.second_factor import remove_factor, rename_factor
from portico.features.signin.storage import FactorStore
from portico.resource.file_rows import FileRow
from portico.resource.imports import store_in_batches
from second_factor import CODES, Way, code_of, factored, session_in

pytestmark = pytest.mark.one_engine

PERSON = {
    "name": "Grace Hopper",
    "email": "grace@example.com",
    "password": "Cobol1959",
    "role": "editor",
}
LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 1}
ROW = FileRow(1, 0, LAMP, [])

Step = Callable[[Api, Caller], Awaitable[Any]]


def changes(values: dict[str, Any]) -> Step:
    """PATCH of a new viewer on the plan pro."""

    async def step(api: Api, admin: Caller) -> Any:
        user = await api.account("viewer", plan="pro", name="Ada Lovelace", email="ada@example.com")
        await admin.patch(f"/users/{user.id}", json=values)
        return user.id

    return step


async def move_to_a_plan(api: Api, _admin: Caller) -> Any:
    user = await api.account("viewer", plan="pro")
    await set_plan(api.live, user.email, "free", OPERATOR)
    api.clock.advance(seconds=1)
    async with api.unchanged():
        await set_plan(api.live, user.email, "free", OPERATOR)
    return user.id


async def change_product(api: Api, admin: Caller) -> Any:
    product = await api.product(name="Lamp", stock_quantity=3)
    body = {"name": "Lamp", "stock_quantity": 4, "metadata": {"colour": "red"}}
    await admin.patch(f"/products/{product.id}", json=body)
    await admin.patch(f"/products/{product.id}", json=body)
    return product.id


async def import_products(api: Api, _admin: Caller) -> Any:
    async for _ in store_in_batches(api.live, PRODUCTS, [ROW] * 2_001, OPERATOR):
        pass


LEAVES: dict[str, tuple[Step, list[tuple[str, str, dict[str, Any]]]]] = {
    "several values": (
        changes({"name": "Ada", "email": "a@example.com", "preferences": {"theme": "dark"}}),
        [
            (
                "user.updated",
                "user",
                {
                    "fields": ["name", "email", "theme"],
                    "email": {"from": "ada@example.com", "to": "a@example.com"},
                },
            )
        ],
    ),
    "a new role": (
        changes({"role": "editor"}),
        [
            (
                "user.updated",
                "user",
                {"fields": ["role"], "role": {"from": "viewer", "to": "editor"}},
            )
        ],
    ),
    "a new plan": (
        move_to_a_plan,
        [("user.updated", "user", {"fields": ["plan"], "plan": {"from": "pro", "to": "free"}})],
    ),
    "a new name and password": (
        changes({"name": "Ada", "password": "Analytical2"}),
        [("user.updated", "user", {"fields": ["name"]}), ("password.changed", "user", {})],
    ),
    "the same name": (changes({"name": "Ada Lovelace"}), []),
    "a changed product": (
        change_product,
        [("product.updated", "product", {"fields": ["stock_quantity", "metadata"]})],
    ),
    "an import": (
        import_products,
        [("products.imported", "product", {"inserted": 2_001, "updated": 0})],
    ),
}


@pytest.mark.parametrize("case", LEAVES)
async def test_an_operation_leaves_its_entries_and_no_others(
    api: Api, noted: Noted, case: str
) -> None:
    admin = await api.caller("admin")
    await noted()
    step, expected = LEAVES[case]
    target_id = await step(api, admin)
    at = target_id and str(target_id)
    assert await noted() == [(action, target, at, details) for action, target, details in expected]
    assert await noted(api.sandbox) == []


async def test_a_recovery_code_that_signs_in_is_noted_with_the_sign_in(
    api: Api, noted: Noted
) -> None:
    user = await factored(api)
    await noted()
    assert (await Way(api, "/auth/login").send(user, CODES[0])).is_success
    about = await noted()
    assert ("recovery_code.used", "user", str(user.id), {}) in about
    how = {"second_factor": "recovery code"}
    assert about[-1] == ("sign_in", "user", str(user.id), how)
    assert (await Way(api, "/auth/login").send(user, code_of(api))).is_success
    how = {"second_factor": "authenticator"}
    assert (await noted())[-1] == ("sign_in", "user", str(user.id), how)


async def test_the_log_tells_passkeys_of_one_name_apart(api: Api, noted: Noted) -> None:
    first, second = Authenticator("ES256"), Authenticator("EdDSA")
    user, person, _ = await owner(api, first)
    await register(person, second)
    one, two = [key.id for key in (await api.live[FactorStore].of_user(user.id)).passkeys]
    added = [details for action, *_, details in await noted() if action == "factor.added"]
    assert added == [{"kind": "passkey", "name": "Laptop", "id": row_id} for row_id in (one, two)]

    assert session_in(await sign_in_by(api, second))
    first.count = 0
    await sign_in_by(api, first)
    await rename_factor(api.live, user.id, "passkey", two, "Key", OPERATOR)
    await remove_factor(api.live, user.id, "passkey", two, OPERATOR)

    target = ("user", str(user.id))
    assert await noted() == [
        ("sign_in", *target, {"passkey": "Laptop", "passkey_id": two}),
        ("passkey.refused", *target, {"name": "Laptop", "id": one}),
        (
            "factor.renamed",
            *target,
            {"kind": "passkey", "name": {"from": "Laptop", "to": "Key"}, "id": two},
        ),
        ("factor.removed", *target, {"kind": "passkey", "name": "Key", "id": two}),
    ]


async def test_a_reset_of_the_sandbox_is_noted_there(api: Api, noted: Noted) -> None:
    caller = await api.caller("editor", "test")
    before = await noted(api.sandbox)
    await reset(api.sandbox, OPERATOR)
    assert await noted(api.sandbox) == [
        ("sandbox.reset", None, None, {"users": 12, "products": 60})
    ]
    kept = [entry.action for entry in await api.sandbox[Audit].page(limit=9)]
    assert kept[:2] == ["sandbox.reset", "api_key.created"]
    assert [action for action, *_ in before] == ["user.created", "api_key.created"]
    assert (await caller.get("/users/me")).status_code == 200


async def test_mirrors_follow_and_the_sandbox_notes_it(api: Api, noted: Noted) -> None:
    admin = await api.caller("admin")
    caller = await api.caller("editor", "test")
    await noted(api.sandbox)
    await admin.patch(f"/users/{caller.user.id}", json={"role": "viewer"})
    await set_plan(api.live, caller.user.email, "free", OPERATOR)
    await admin.delete(f"/users/{caller.user.id}")
    assert await api.sandbox[Users].by_account(caller.user.id) is None
    actions = [action for action, *_ in await noted(api.sandbox)]
    assert actions == ["user.updated", "user.updated", "user.deleted"]
    entries = await api.sandbox[Audit].page(limit=3)
    assert {(entry.credential, entry.user_id) for entry in entries} == {("system", None)}


async def test_an_import_that_is_broken_off_notes_what_it_has_stored(
    api: Api, noted: Noted
) -> None:
    def rows() -> Any:
        yield from [ROW] * 2_000
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - raised here
        async for _ in store_in_batches(api.live, PRODUCTS, rows(), OPERATOR):
            pass
    assert await noted() == [
        ("products.imported", "product", None, {"inserted": 2_000, "updated": 0})
    ]


NOBODY = 9_007_199_254_740_991
REFUSALS: list[tuple[str, str, Any, int]] = [
    ("POST", "/users", {**PERSON, "name": "G"}, 422),
    ("POST", "/users", {**PERSON, "email": "taken@example.com"}, 409),
    ("PATCH", "/users/{me}", {"role": "viewer"}, 409),
    ("PATCH", f"/users/{NOBODY}", {"name": "Ada"}, 404),
    ("DELETE", "/users/{me}", None, 409),
    ("PATCH", "/products/{product}", {"status": "draft"}, 422),
    ("DELETE", f"/products/{NOBODY}", None, 404),
]


async def test_a_refusal_leaves_none(api: Api, noted: Noted) -> None:
    admin = await api.caller("admin", password="Analytical1")
    await api.account("viewer", email="taken@example.com")
    product = await api.product()
    places = {"me": admin.user.id, "product": product.id}
    await noted()
    async with api.unchanged():
        for method, path, body, status in REFUSALS:
            answer = await admin.request(method, path.format_map(places), json=body)
            assert answer.status_code == status, (method, path, body, answer.text)
        stale = {"if-match": '"of long ago"'}
        assert (await admin.delete(f"/products/{product.id}", headers=stale)).status_code == 412
    assert await noted() == []


async def test_a_wrong_current_password_is_noted(api: Api, noted: Noted) -> None:
    admin = await api.caller("admin", password="Analytical1")
    await noted()
    for change in ({"password": "Analytical2"}, {"email": "other@example.com"}):
        body = {**change, "current_password": "Wrong1234"}
        assert (await admin.patch("/users/me", json=body)).status_code == 422
    entry: tuple[str, str, str, dict[str, Any]]
    entry = ("password.refused", "user", str(admin.user.id), {})
    assert await noted() == [entry, entry]


async def test_an_entry_of_a_command_names_nobody_and_its_time(api: Api) -> None:
    user = await api.account()
    api.clock.advance(seconds=90)
    await set_plan(api.live, user.email, "pro", OPERATOR)
    (entry,) = await api.live[Audit].page(limit=1)
    nobody = (entry.user_id, entry.email, entry.credential_id, entry.address, entry.request_id)
    assert (entry.credential, entry.at, nobody) == ("command", api.clock(), (None,) * 5)


async def test_who_makes_a_sandbox_key_stands_there_as_the_sandbox_knows_them(api: Api) -> None:
    first, second = await api.caller("editor"), await api.caller("admin")

    async def give(by: Caller) -> int:
        actor = Author(Actor(by.user.id, by.user.email, "api_key", by.record.id))
        made, _ = await give_key(
            api.live, first.user, name="Test", key_type="test", expires_at=None, by=actor
        )
        return made.user_id

    mirror = await give(first)
    (entry,) = await api.sandbox[Audit].page(limit=1)
    assert (entry.user_id, entry.email) == (mirror, first.user.email)
    await give(second)
    (entry,) = await api.sandbox[Audit].page(limit=1)
    assert (entry.user_id, entry.email) == (None, second.user.email), "no mirror, so no id there"


async def test_no_entry_holds_a_secret(api: Api, tmp_path: Path) -> None:
    admin = await api.caller("admin", password="Analytical1")
    keys = [(await api.caller(user=admin.user, key_type=kind)).key for kind in KEY_TYPES]
    rotated = (await admin.post("/api-keys/rotate")).json()["data"]["key"]
    await admin.post("/users", json=PERSON)
    await admin.patch(
        "/users/me", json={"password": "Analytical2", "current_password": "Analytical1"}
    )

    told = str([await env[Audit].page(limit=99) for env in api.portico.environments])
    assert "password.changed" in told
    for key in (*keys, rotated):
        assert key[8:] not in told
    for secret in ("Analytical1", "Analytical2", "Cobol1959", "argon2"):
        assert secret not in told
    await api.mailed()
    assert not re.search(rb"Analytical[12]|Cobol1959", bytes_in(tmp_path))


async def test_entries_of_what_is_gone_say_what_it_was(api: Api, noted: Noted) -> None:
    admin = await api.caller("admin")
    await noted()
    user = (await admin.post("/users", json=PERSON)).json()["data"]["id"]
    await admin.delete(f"/users/{user}")
    product = (await admin.post("/products", json=LAMP)).json()["data"]["id"]
    await admin.delete(f"/products/{product}")
    await admin.post("/api-keys/rotate")
    for _ in range(2):
        await revoke_key(api.live, admin.record.id, OPERATOR)
    person = {"email": "grace@example.com", "role": "editor"}
    key, key_id = {"name": "A key"}, admin.record.id
    assert await noted() == [
        ("user.created", "user", str(user), person | {"plan": "free"}),
        ("user.deleted", "user", str(user), person),
        ("product.created", "product", str(product), {"name": "Lamp"}),
        ("product.deleted", "product", str(product), {"name": "Lamp"}),
        ("api_key.rotated", "api_key", str(key_id), key | {"successor": key_id + 1}),
        ("api_key.revoked", "api_key", str(key_id), key | {"user_id": admin.user.id}),
    ]
