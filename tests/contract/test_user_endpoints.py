"""GET, POST, PATCH and DELETE of users (specification §2.1, §4.1; decisions §7)."""

import asyncio
from collections import Counter

import pytest

from driving import Api, refused
from portico.features.people.storage import Users
from signing_in import client_of, tokens_of

NEW = {"name": "Ada Lovelace", "email": "ada@example.com", "password": "Analytical1"}
SECONDS = "2026-03-15T12:00:{:02d}.000Z"


@pytest.mark.one_engine
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
    read = await admin.get(where)
    assert read.json()["data"]["email"] == "ada@example.com"
    stored = await api.live[Users].get(body["data"]["id"])
    assert stored is not None
    assert stored.plan == "free"
    assert await api.portico.passwords.verify("Analytical1", stored.password_hash or "")
    shown = answer.text + read.text + (await admin.get("/users")).text
    assert "argon2" not in shown
    assert "Analytical1" not in shown + str(await api.state())
    assert (await admin.delete(where)).status_code == 204
    for method in ("GET", "DELETE"):
        refused(await admin.request(method, where), 404, "RESOURCE_NOT_FOUND")


SAME = [
    ("rené@example.com", "RENE\u0301@EXAMPLE.com"),
    ("straße@example.com", "STRASSE@example.com"),
    ("σίσυφος@example.com", "ΣΊΣΥΦΟΣ@example.com"),
    ("ada@münchen.de", "ada@xn--mnchen-3ya.de"),
]


async def test_an_email_in_another_case_or_composition_is_taken(api: Api) -> None:
    admin = await api.caller("admin", password="Analytical1")
    for first, second in SAME:
        assert (await admin.post("/users", json=NEW | {"email": first})).status_code == 201
        async with api.unchanged():
            answer = await admin.post("/users", json=NEW | {"email": second})
            assert refused(answer, 409, "DUPLICATE_RESOURCE").keys() == {"email"}
            body = {"email": second, "current_password": "Analytical1"}
            answer = await admin.patch("/users/me", json=body)
            assert refused(answer, 409, "DUPLICATE_RESOURCE").keys() == {"email"}


async def test_of_concurrent_creations_of_one_email_one_succeeds(api: Api) -> None:
    admin = await api.caller("admin")
    emails = ["rené.straße@x.com", "RENE\u0301.STRASSE@X.COM", "René.Strasse@x.com"]
    posts = (admin.post("/users", json=NEW | {"email": emails[n % 3]}) for n in range(60))
    answers = await asyncio.gather(*posts)
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 59}
    assert (await admin.get("/users")).json()["pagination"]["total_items"] == 2


@pytest.mark.one_engine
async def test_users_change_their_own_name_avatar_and_preferences_alone(api: Api) -> None:
    caller = await api.caller("viewer")
    api.clock.advance(seconds=5)
    changes: list[dict[str, object]] = [{}, {"name": caller.user.name}, {"preferences": {}}]
    async with api.unchanged():
        for change in changes:
            answer = await caller.patch("/users/me", json=change)
            assert answer.json()["data"]["updated_at"] == SECONDS.format(0)
        for beyond in ({"role": "admin"}, {"email": "other@example.com"}):
            refused(await caller.patch("/users/me", json=beyond), 403, "PERMISSION_DENIED")
    change = {
        "name": " Ada ",
        "avatar_url": "https://example.com/ada.png",
        "preferences": {"theme": "dark", "language": "pt-BR"},
    }
    data = (await caller.patch("/users/me", json=change)).json()["data"]
    assert data["name"] == "Ada"
    assert data["avatar_url"] == "https://example.com/ada.png"
    assert data["preferences"] == {"theme": "dark", "language": "pt-BR", "notifications": True}
    assert (data["created_at"], data["updated_at"]) == (SECONDS.format(0), SECONDS.format(5))
    assert (await caller.get("/users/me")).json()["data"] == data
    gone = await caller.patch(f"/users/{caller.user.id}", json={"avatar_url": None})
    assert gone.json()["data"]["avatar_url"] is None


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
async def test_an_admin_changes_everything_of_others(api: Api) -> None:
    admin = await api.caller("admin")
    other = await api.account("viewer")
    change = {"name": "Bo", "email": "bo@example.com", "role": "editor"}
    answer = await admin.patch(f"/users/{other.id}", json=change | {"password": "Passw0rdd"})
    assert answer.json()["data"].items() >= change.items()
    stored = await api.live[Users].get(other.id)
    assert stored is not None
    assert await api.portico.passwords.verify("Passw0rdd", stored.password_hash or "")


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("role", "change"),
    [(role, {"password": "Newpassw0rd"}) for role in ("viewer", "admin")]
    + [("admin", {"email": "new@example.com"})],
)
async def test_an_own_email_or_password_changes_only_with_the_current_password(
    api: Api, role: str, change: dict[str, str]
) -> None:
    caller = await api.caller(role, password="Passw0rdd")
    await api.account("admin")
    async with api.unchanged(but="audit"):
        for current in ({}, {"current_password": "Passw0rde"}, {"current_password": ""}):
            for path in ("/users/me", f"/users/{caller.user.id}"):
                answer = await caller.patch(path, json=change | current)
                assert refused(answer, 422, "VALIDATION_ERROR").keys() == {"current_password"}
    same = await caller.patch("/users/me", json={"name": "Same mail"})
    assert same.status_code == 200
    answer = await caller.patch("/users/me", json=change | {"current_password": "Passw0rdd"})
    assert answer.status_code == 200
    assert answer.json()["data"]["email"] == change.get("email", caller.user.email)


@pytest.mark.one_engine
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


@pytest.mark.one_engine
async def test_the_last_admin_stays_an_admin_and_nobody_changes_their_own_role(api: Api) -> None:
    admin = await api.caller("admin")
    me = f"/users/{admin.user.id}"
    async with api.unchanged():
        refused(await admin.delete(me), 409, "CONFLICT")
        for where in (me, "/users/me"):
            refused(await admin.patch(where, json={"role": "viewer"}), 409, "CONFLICT")
    second = await api.caller("admin")
    async with api.unchanged():
        refused(await admin.patch("/users/me", json={"role": "viewer"}), 403, "PERMISSION_DENIED")
    assert (await second.delete(me)).status_code == 204
    async with api.unchanged():
        refused(await second.delete(f"/users/{second.user.id}"), 409, "CONFLICT")


async def test_admins_removing_one_another_leave_one_admin(api: Api) -> None:
    for _ in range(3):
        admins = [await api.caller("admin") for _ in range(6)]
        pairs = list(zip(admins, [*admins[1:], admins[0]], strict=True))
        demoted = {"role": "viewer"}
        suspended = {"suspended": True}
        await asyncio.gather(
            *(by.delete(f"/users/{whom.user.id}") for by, whom in pairs[::3]),
            *(by.patch(f"/users/{whom.user.id}", json=demoted) for by, whom in pairs[1::3]),
            *(by.patch(f"/users/{w.user.id}/account", json=suspended) for by, w in pairs[2::3]),
        )
        assert await api.live[Users].first_admin() is not None
        async with api.live.db.transaction() as tx:
            await tx.run("DELETE FROM users")
