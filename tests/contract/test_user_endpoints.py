"""GET, POST, PATCH and DELETE of users (specification §2.1, §4.1; decisions §7)."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from driving import Api, InProcess, json_bytes, refused
from portico.features.access.storage import ApiKeys
from portico.features.people.storage import Users
from signing_in import client_of, tokens_of

NEW = {"name": "Ada Lovelace", "email": "ada@example.com", "password": "Analytical1"}
SECONDS = "2026-03-15T12:00:{:02d}.000Z"


async def test_a_caller_reads_themselves(api: Api) -> None:
    caller = await api.caller("viewer", name="Ada Lovelace", email="ada@example.com")
    answer = await caller.get("/users/me")
    assert answer.status_code == 200
    assert answer.json() == {
        "data": {
            "id": caller.user.id,
            "name": "Ada Lovelace",
            "email": "ada@example.com",
            "role": "viewer",
            "created_at": SECONDS.format(0),
            "updated_at": SECONDS.format(0),
            "avatar_url": None,
            "last_login_at": None,
            "preferences": {"theme": "system", "language": "en", "notifications": True},
        }
    }
    assert (await caller.get(f"/users/{caller.user.id}")).json() == answer.json()


async def test_a_new_user_is_answered_and_found_where_location_says(api: Api) -> None:
    admin = await api.caller("admin")
    answer = await admin.post("/users", json=NEW)
    assert answer.status_code == 201
    body = answer.json()
    assert body.keys() == {"data", "message"}
    assert body["data"] == {
        "id": body["data"]["id"],
        "name": "Ada Lovelace",
        "email": "ada@example.com",
        "role": "viewer",
        "created_at": SECONDS.format(0),
        "updated_at": SECONDS.format(0),
    }
    where = answer.headers["location"]
    assert where == f"https://localhost:8443/v1/users/{body['data']['id']}"
    found = (await admin.get(where)).json()["data"]
    assert found["email"] == "ada@example.com"
    stored = await api.live[Users].get(found["id"])
    assert stored is not None
    assert stored.plan == "free"
    assert await api.portico.passwords.verify("Analytical1", stored.password_hash or "")


async def test_a_password_is_never_answered_nor_stored_in_the_open(api: Api) -> None:
    admin = await api.caller("admin")
    created = await admin.post("/users", json=NEW)
    where = created.headers["location"]
    answers = [created, await admin.get(where), await admin.get("/users")]
    assert not any("Analytical1" in answer.text or "argon2" in answer.text for answer in answers)
    assert "Analytical1" not in str(await api.state())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ada@example.com", "ADA@EXAMPLE.com"),
        ("rené@example.com", "RENE\u0301@example.com"),
        ("straße@example.com", "STRASSE@example.com"),
        ("σίσυφος@example.com", "ΣΊΣΥΦΟΣ@example.com"),
        ("ada@münchen.de", "ada@xn--mnchen-3ya.de"),
    ],
)
async def test_an_email_in_another_case_or_composition_is_taken(
    api: Api, first: str, second: str
) -> None:
    admin = await api.caller("admin", password="Analytical1")
    assert (await admin.post("/users", json=NEW | {"email": first})).status_code == 201
    async with api.unchanged():
        answer = await admin.post("/users", json=NEW | {"email": second})
        assert refused(answer, 409, "DUPLICATE_RESOURCE").keys() == {"email"}
        body = {"email": second, "current_password": "Analytical1"}
        other = await admin.patch("/users/me", json=body)
        assert refused(other, 409, "DUPLICATE_RESOURCE").keys() == {"email"}


async def test_of_two_thousand_concurrent_creations_of_one_email_one_succeeds(api: Api) -> None:
    admin = await api.caller("admin")
    emails = ["rené.straße@x.com", "RENE\u0301.STRASSE@X.COM", "René.Strasse@x.com"]
    bodies = [json_bytes(NEW | {"email": email}) for email in emails]
    headers = [
        ("authorization", f"Bearer {admin.key}"),
        ("content-type", "application/json"),
    ]
    transport = InProcess(api)
    at_once = asyncio.Semaphore(250)

    async def create(number: int) -> int:
        for _ in range(50):
            async with at_once:
                answer = await transport.exchange("POST", "/v1/users", headers, bodies[number % 3])
            if answer.status_code != 503:  # the hashing queue was full: clients try again
                return answer.status_code
            assert int(answer.headers["retry-after"]) >= 1
            await asyncio.sleep(int(answer.headers["retry-after"]))
        return 503

    statuses = await asyncio.gather(*(create(number) for number in range(2_000)))
    assert Counter(statuses) == {201: 1, 409: 1_999}
    assert (await admin.get("/users")).json()["pagination"]["total_items"] == 2


async def test_users_change_their_own_name_avatar_and_preferences(api: Api) -> None:
    caller = await api.caller("viewer")
    api.clock.advance(seconds=5)
    change: dict[str, Any] = {
        "name": " Ada ",
        "avatar_url": "https://example.com/ada.png",
        "preferences": {"theme": "dark", "language": "pt-BR"},
    }
    answer = await caller.patch("/users/me", json=change)
    assert answer.status_code == 200
    data = answer.json()["data"]
    assert data["name"] == "Ada"
    assert data["avatar_url"] == "https://example.com/ada.png"
    assert data["preferences"] == {"theme": "dark", "language": "pt-BR", "notifications": True}
    assert (data["created_at"], data["updated_at"]) == (SECONDS.format(0), SECONDS.format(5))
    assert (await caller.get("/users/me")).json()["data"] == data
    gone = await caller.patch(f"/users/{caller.user.id}", json={"avatar_url": None})
    assert gone.json()["data"]["avatar_url"] is None


async def test_a_change_that_changes_nothing_leaves_updated_at(api: Api) -> None:
    caller = await api.caller("viewer")
    api.clock.advance(seconds=5)
    async with api.unchanged():
        changes: list[dict[str, object]] = [{}, {"name": caller.user.name}, {"preferences": {}}]
        for change in changes:
            answer = await caller.patch("/users/me", json=change)
            assert answer.json()["data"]["updated_at"] == SECONDS.format(0)


@pytest.mark.one_engine
@pytest.mark.parametrize("change", [{"role": "admin"}, {"email": "other@example.com"}])
async def test_users_change_neither_their_own_role_nor_email(
    api: Api, change: dict[str, str]
) -> None:
    for role in ("viewer", "editor"):
        caller = await api.caller(role)
        async with api.unchanged():
            refused(await caller.patch("/users/me", json=change), 403, "PERMISSION_DENIED")


@pytest.mark.one_engine
async def test_nobody_changes_others_without_write_users(api: Api) -> None:
    other = await api.account()
    for role in ("viewer", "editor"):
        caller = await api.caller(role)
        async with api.unchanged():
            for where in (other.id, 999_999):
                answer = await caller.patch(f"/users/{where}", json={"name": "Mallory"})
                refused(answer, 403, "PERMISSION_DENIED")


UNREADABLE: list[tuple[int, str, bytes]] = [
    (413, "application/json", b'{"name": "' + b"x" * 2_097_152 + b'"}'),
    (400, "application/json", b"{"),
    (422, "application/json", b'{"name": "x"}'),
    (415, "text/plain", b'{"name": "Mallory"}'),
]
"""Bodies, and how they are refused where they are read."""


@pytest.mark.one_engine
@pytest.mark.parametrize("role", ["viewer", "editor"])
async def test_a_body_is_not_read_from_users_who_may_not_change_others(api: Api, role: str) -> None:
    other, caller = await api.account(), await api.caller(role)
    itself = caller.user.id
    async with api.unchanged():
        for read, media, content in UNREADABLE:
            for whom, status in ((other.id, 403), (999_999, 403), ("none", 404), (itself, read)):
                headers = {"content-type": media}
                answer = await caller.patch(f"/users/{whom}", content=content, headers=headers)
                refused(answer, status)
    assert (await caller.patch(f"/users/{itself}", json={"name": "New"})).status_code == 200


@pytest.mark.one_engine
async def test_a_body_is_not_read_from_tokens_that_may_not_change_their_user(api: Api) -> None:
    client = (await client_of(api.live)).client
    for role, scopes in (("editor", "read:users"), ("admin", "write:users")):
        user = await api.account(role)
        token = (await tokens_of(api.live, client, user, scopes)).access_token
        caller = api.stranger(authorization=f"Bearer {token}")
        async with api.unchanged():
            for where in ("me", user.id):
                for _, media, content in UNREADABLE:
                    headers = {"content-type": media}
                    answer = await caller.patch(f"/users/{where}", content=content, headers=headers)
                    refused(answer, 403, "PERMISSION_DENIED")


async def test_an_admin_changes_everything_of_others(api: Api) -> None:
    admin = await api.caller("admin")
    other = await api.account("viewer")
    change = {"name": "Bo", "email": "bo@example.com", "role": "editor", "password": "Passw0rdd"}
    answer = await admin.patch(f"/users/{other.id}", json=change)
    assert answer.status_code == 200
    assert {name: answer.json()["data"][name] for name in ("name", "email", "role")} == {
        "name": "Bo",
        "email": "bo@example.com",
        "role": "editor",
    }
    stored = await api.live[Users].get(other.id)
    assert stored is not None
    assert await api.portico.passwords.verify("Passw0rdd", stored.password_hash or "")


@pytest.mark.one_engine
async def test_an_own_password_changes_only_with_the_current_one(api: Api) -> None:
    for role in ("viewer", "admin"):
        caller = await api.caller(role, password="Passw0rdd")
        async with api.unchanged(but="audit"):
            for current in ({}, {"current_password": "Passw0rde"}, {"current_password": ""}):
                change = {"password": "Newpassw0rd", **current}
                answer = await caller.patch("/users/me", json=change)
                assert refused(answer, 422, "VALIDATION_ERROR").keys() == {"current_password"}
        right = {"password": "Newpassw0rd", "current_password": "Passw0rdd"}
        assert (await caller.patch("/users/me", json=right)).status_code == 200
        again = await caller.patch("/users/me", json=right)
        assert refused(again, 422).keys() == {"current_password"}


async def test_an_own_e_mail_changes_only_with_the_current_password(api: Api) -> None:
    admin = await api.caller("admin", password="Passw0rdd")
    await api.account("admin")
    async with api.unchanged(but="audit"):
        for current in ({}, {"current_password": "Passw0rde"}):
            for path in ("/users/me", f"/users/{admin.user.id}"):
                answer = await admin.patch(path, json={"email": "new@example.com", **current})
                assert refused(answer, 422, "VALIDATION_ERROR").keys() == {"current_password"}
    same = await admin.patch("/users/me", json={"email": admin.user.email, "name": "Same mail"})
    assert same.status_code == 200
    body = {"email": "new@example.com", "current_password": "Passw0rdd"}
    changed = await admin.patch("/users/me", json=body)
    assert changed.json()["data"]["email"] == "new@example.com"


async def test_administrators_are_made_changed_and_deleted_with_the_scope_admin_alone(
    api: Api,
) -> None:
    owner, other = await api.account("admin"), await api.account("admin")
    viewer = await api.account("viewer")
    client = (await client_of(api.live, owner)).client
    tokens = await tokens_of(api.live, client, owner, "read:users write:users")
    narrow = api.stranger(authorization=f"Bearer {tokens.access_token}")
    async with api.unchanged():
        for method, path, body in (
            ("POST", "/users", NEW | {"role": "admin"}),
            ("PATCH", f"/users/{viewer.id}", {"role": "admin"}),
            ("PATCH", f"/users/{other.id}", {"password": "Stolen1234"}),
            ("PATCH", f"/users/{other.id}", {"name": "Another"}),
            ("PATCH", f"/users/{other.id}", {"role": "viewer"}),
            ("PATCH", "/users/me", {"name": "Another"}),
            ("DELETE", f"/users/{other.id}", None),
        ):
            answer = await narrow.request(method, path, json=body)
            refused(answer, 403, "PERMISSION_DENIED")
    assert (await narrow.patch(f"/users/{viewer.id}", json={"role": "editor"})).status_code == 200
    assert (await narrow.delete(f"/users/{viewer.id}")).status_code == 204
    tokens = await tokens_of(api.live, client, owner, "admin")
    whole = api.stranger(authorization=f"Bearer {tokens.access_token}")
    assert (await whole.patch(f"/users/{other.id}", json={"role": "viewer"})).status_code == 200


async def test_a_role_takes_effect_on_the_next_request(api: Api) -> None:
    admin = await api.caller("admin")
    editor = await api.caller("editor")
    body = {"name": "Lamp", "category": "light", "price": 1}
    assert (await editor.post("/products", json=body)).status_code == 201
    await admin.patch(f"/users/{editor.user.id}", json={"role": "viewer"})
    async with api.unchanged():
        refused(await editor.post("/products", json=body), 403, "PERMISSION_DENIED")
    await admin.patch(f"/users/{editor.user.id}", json={"role": "editor"})
    assert (await editor.post("/products", json=body)).status_code == 201


async def test_a_deleted_user_is_gone_with_all_keys(api: Api) -> None:
    admin = await api.caller("admin")
    other = await api.caller("editor")
    answer = await admin.delete(f"/users/{other.user.id}")
    assert (answer.status_code, answer.content) == (204, b"")
    refused(await admin.get(f"/users/{other.user.id}"), 404, "RESOURCE_NOT_FOUND")
    refused(await other.get("/users/me"), 401, "AUTHENTICATION_REQUIRED")
    refused(await admin.delete(f"/users/{other.user.id}"), 404, "RESOURCE_NOT_FOUND")
    assert await api.live[ApiKeys].get(other.record.id) is None


async def test_the_last_admin_stays_an_admin(api: Api) -> None:
    admin = await api.caller("admin")
    me = f"/users/{admin.user.id}"
    async with api.unchanged():
        refused(await admin.delete(me), 409, "CONFLICT")
        refused(await admin.patch(me, json={"role": "viewer", "name": "No"}), 409, "CONFLICT")
        refused(await admin.patch("/users/me", json={"role": "viewer"}), 409, "CONFLICT")
    second = await api.caller("admin")
    assert (await second.delete(me)).status_code == 204
    async with api.unchanged():
        refused(await second.delete(f"/users/{second.user.id}"), 409, "CONFLICT")


async def test_an_admin_among_several_does_not_change_their_own_role(api: Api) -> None:
    admin = await api.caller("admin")
    await api.account("admin")
    async with api.unchanged():
        refused(await admin.patch("/users/me", json={"role": "viewer"}), 403, "PERMISSION_DENIED")


async def test_admins_removing_one_another_leave_one_admin(api: Api) -> None:
    for _ in range(5):
        admins = [await api.caller("admin") for _ in range(6)]

        pairs = list(zip(admins, [*admins[1:], admins[0]], strict=True))
        await asyncio.gather(
            *(by.delete(f"/users/{whom.user.id}") for by, whom in pairs[::2]),
            *(
                by.patch(f"/users/{whom.user.id}", json={"role": "viewer"})
                for by, whom in pairs[1::2]
            ),
        )
        assert await api.live[Users].first_admin() is not None
        async with api.live.db.transaction() as tx:
            await tx.run("DELETE FROM users")
