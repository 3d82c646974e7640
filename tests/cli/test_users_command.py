"""`portico users`."""

import json

import pytest
from nacl.pwhash import argon2id

from beside import Running
from operating import Installation, contents, in_database, with_input


def create(running: Running, email: str, *more: str) -> dict[str, object]:
    told: dict[str, object] = running.installation.told(
        "users", "create", "--email", email, "--name", "Ada Lovelace", *more
    )
    return told


def key_of(running: Running, email: str) -> str:
    told = running.installation.told(
        "keys", "create", "--owner", email, "--type", "live", "--name", "Mine"
    )
    return str(told["key"])


def test_a_new_user_is_known_to_the_server_at_once(running: Running) -> None:
    told = create(running, "Ada@Example.com", "--role", "editor", "--plan", "pro")

    assert told.keys() == {"id", "email", "password"}
    assert told["email"] == "Ada@example.com"
    user = running.get(f"/users/{told['id']}").json["data"]
    assert (user["name"], user["email"], user["role"]) == ("Ada Lovelace", told["email"], "editor")
    limit = running.get("/users/me", key=key_of(running, "ada@example.com")).headers
    assert limit["x-ratelimit-limit"] == "100"


def test_a_given_password_is_not_told_again(installation: Installation) -> None:
    words = ["users", "create", "--email", "b@example.com", "--name", "Bo", "--password-stdin"]
    typed = "Correct4ho\u0308rse\n"
    code, said, complaint = with_input(installation, typed.encode(), *words, "--json")
    assert (code, complaint) == (0, b"")
    assert json.loads(said).keys() == {"id", "email"}
    stored = in_database(
        installation.data / "live.db",
        "SELECT password_hash FROM users WHERE email = ?",
        "b@example.com",
    )
    assert argon2id.verify(stored.encode(), "Correct4hörse".encode())


@pytest.mark.parametrize(
    ("password", "complaint"),
    [
        (b"short", b"must be 8 to 128 characters long"),
        (b"\xff\xfe\xff\xfe\xff\xfe", b"must be UTF-8"),
    ],
)
def test_a_weak_password_makes_no_user(
    installation: Installation, password: bytes, complaint: bytes
) -> None:
    words = ["users", "create", "--email", "b@example.com", "--name", "Bo", "--password-stdin"]
    code, said, complained = with_input(installation, password, *words)
    assert (code, said) == (2, b"")
    assert complaint in complained
    assert in_database(installation.data / "live.db", "SELECT count(*) FROM users") == 1


def test_a_new_plan_holds_from_the_next_request_on_and_for_the_mirror_too(running: Running) -> None:
    create(running, "moves@example.com")
    live = key_of(running, "moves@example.com")
    told = running.installation.told(
        "keys", "create", "--owner", "moves@example.com", "--type", "test", "--name", "T"
    )
    before = running.get("/users/me", key=live).headers["x-ratelimit-limit"]

    moved = running.installation.told("users", "set-plan", "MOVES@example.com", "pro")

    assert before == "30"
    assert moved == {"id": moved["id"], "email": "moves@example.com", "plan": "pro"}
    assert running.get("/users/me", key=live).headers["x-ratelimit-limit"] == "100"
    mirrored = running.get_sandbox("/users/me", key=told["key"])
    assert mirrored.headers["x-ratelimit-limit"] == "100"
    code, line = running.installation.refused(
        "users", "set-plan", "moves@example.com", "free", "--sandbox"
    )
    assert code == 1
    assert "mirrors a live account" in line
    mirrored = running.get_sandbox("/users/me", key=told["key"])
    assert mirrored.headers["x-ratelimit-limit"] == "100"


def test_users_are_listed_shown_and_given_roles(on_each: Running) -> None:
    told = create(on_each, "listed@example.com", "--role", "editor")
    key = key_of(on_each, "listed@example.com")

    listed = on_each.installation.told("users", "list", "--role", "editor")
    shown = on_each.installation.told("users", "show", "LISTED@example.com")
    moved = on_each.installation.told("users", "set-role", "listed@example.com", "admin")

    (entry,) = [one for one in listed if one["id"] == told["id"]]
    assert {one["role"] for one in listed} == {"editor"}
    assert entry == {
        "id": told["id"],
        "name": "Ada Lovelace",
        "email": "listed@example.com",
        "role": "editor",
        "plan": "free",
        "suspended": False,
        "created_at": entry["created_at"],
        "last_login_at": None,
    }
    counted = {"email_verified": False, "api_keys": 1, "sessions": 0, "grants": 0}
    assert shown == {**entry, **counted}
    assert moved == {"id": told["id"], "email": "listed@example.com", "role": "admin"}
    assert on_each.get("/webhooks", key=key).status == 200


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("create --email nobody --name Bo", 2, "--email must be a valid e-mail address"),
        ("create --email b@example.com --name N", 2, "--name must be 2 to 100 characters long"),
        ("create --email b@example.com --name Bo --plan gold", 2, "no plan gold"),
        ("create --email ADMIN@example.com --name Bo", 1, "exists already"),
        ("invite ADMIN@example.com", 1, "exists already"),
        ("invite a@example.com --plan gold", 2, "no plan gold"),
        ("set-plan admin@example.com gold", 2, "free, pro, enterprise"),
        ("set-plan nobody@example.com pro", 1, "no user with the e-mail nobody@example.com"),
        ("set-role admin@example.com viewer", 1, "last admin"),
        ("suspend admin@example.com", 1, "last admin"),
        ("delete admin@example.com --yes", 1, "last admin"),
        ("delete admin@example.com", 2, "--yes"),
        ("reset-second-factor admin@example.com", 1, "no second factor"),
    ],
)
def test_refused_command_on_users_says_why_and_changes_nothing(
    installation: Installation, words: str, code: int, told: str
) -> None:
    before = contents(installation.data)
    found, line = installation.refused("users", *words.split())
    assert (found, told in line) == (code, True), line
    assert contents(installation.data) == before


def test_a_suspended_or_deleted_account_is_shut_out_at_once(running: Running) -> None:
    told = create(running, "rests@example.com")
    key = key_of(running, "rests@example.com")
    for verb, status in (("suspend", 401), ("resume", 200), ("delete --yes", 401)):
        done = running.installation.told("users", *verb.split(), "RESTS@example.com")
        assert done["id"] == told["id"]
        assert running.get("/users/me", key=key).status == status, verb


def test_keys_that_an_admin_created_for_others_are_named_when_access_ends(
    running: Running,
) -> None:
    owner = create(running, "owns@example.com")
    create(running, "boss@example.com", "--role", "admin")
    body = {"name": "Kept", "type": "live", "user_id": owner["id"]}
    admin = key_of(running, "boss@example.com")
    made = running.service.ask("/v1/api-keys", method="POST", key=admin, body=body).json["data"]
    told = running.installation.told("users", "suspend", "boss@example.com")
    expected = {"environment": "live", "name": "Kept", "owner": owner["email"]}
    assert told["keys_for_others"] == [expected | {"id": made["id"], "hint": made["hint"]}]
    assert running.get("/users/me", key=made["key"]).status == 200


def test_links_of_an_operator_are_told(running: Running) -> None:
    given = running.installation.told("users", "reset-password", "ADMIN@example.com")
    assert given.keys() == {"email", "link", "expires_at"}
    assert "/dashboard/reset?token=" in given["link"]
    words = ["users", "invite", "Guest@Example.com", "--name", "Gu Est", "--role", "editor"]
    made, again = (running.installation.told(*words) for _ in range(2))
    assert (made["email"], made["role"]) == ("Guest@example.com", "editor")
    assert "/dashboard/invitation?token=" in made["link"]
    assert again["id"] == made["id"]
    assert again["link"] != made["link"]
